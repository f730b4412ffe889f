//! Copies and fills, and what of them is refused.

use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, fill, host};
use crate::rig::values::Random;
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use thalweg_hal::Status;
use thalweg_hal::tables::{Copy, Place};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("copy_there_and_back", there_and_back),
        case("copy_between_buffers", between_buffers),
        case("copy_inside_a_buffer", inside_a_buffer),
        case("copy_rows", rows),
        case("copy_rows_to_and_from_the_host", host_rows),
        case("copy_of_nothing", nothing),
        case("copy_without_a_buffer", without_a_buffer),
        case("copy_overlap", overlap),
        case("copy_out_of_bounds", out_of_bounds),
        case("copy_rows_out_of_bounds", rows_out_of_bounds),
        case("copy_pitch_below_width", pitch_below_width),
        case("copy_between_devices", between_devices),
        case("fill_patterns", patterns),
        case("fill_large", fill_large),
        case("fill_refused", fill_refused),
    ]
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.bits() as u8).collect()
}

fn pitched(place: Place, pitch: u64) -> Place {
    Place { pitch, ..place }
}

fn there_and_back(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    for len in [
        1,
        2,
        3,
        7,
        8,
        63,
        64,
        65,
        511,
        512,
        513,
        4097,
        100_001,
        (1 << 20) + 7,
    ] {
        let data = noise(len, len as u64);
        let buffer = device.upload(&data)?;
        check!(
            device.download(stream, buffer, len as u64)? == data,
            "{len} bytes came back changed"
        );
        device.free(buffer)?;
    }
    let data = noise(1000, 1);
    let buffer = device.upload(&vec![0; 1000])?;
    for (start, len) in [(0, 1), (1, 2), (3, 61), (64, 100), (511, 400), (999, 1)] {
        let from = host(data.as_ptr().cast_mut());
        let source = Place {
            offset: start,
            ..from
        };
        device.copy(stream, &copy(at(buffer, start), source, len))?;
        let mut back = vec![0_u8; len as usize];
        device.copy(stream, &copy(host(back.as_mut_ptr()), at(buffer, start), len))?;
        device.join(stream)?;
        check!(
            back == data[start as usize..][..len as usize],
            "{len} bytes at {start} came back changed"
        );
    }
    Ok(())
}

fn between_buffers(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let data = noise(5000, 2);
    let (a, b) = (device.upload(&data)?, device.upload(&vec![9; 5000])?);
    device.copy(stream, &copy(at(b, 13), at(a, 1001), 3000))?;
    let mut expected = vec![9; 5000];
    expected[13..3013].copy_from_slice(&data[1001..4001]);
    check!(
        device.download(stream, b, 5000)? == expected,
        "a copy between buffers"
    );
    check!(
        device.download(stream, a, 5000)? == data,
        "the source of a copy has changed"
    );
    Ok(())
}

fn inside_a_buffer(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let mut data = noise(1000, 3);
    let buffer = device.upload(&data)?;
    device.copy(stream, &copy(at(buffer, 0), at(buffer, 500), 500))?;
    data.copy_within(500.., 0);
    device.copy(stream, &copy(at(buffer, 900), at(buffer, 0), 100))?;
    data.copy_within(..100, 900);
    check!(
        device.download(stream, buffer, 1000)? == data,
        "copies between neighbouring halves of a buffer"
    );
    Ok(())
}

fn rows(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let data = noise(4096, 4);
    let a = device.upload(&data)?;
    for (width, rows, from, to) in [
        (1, 50, 3, 1),
        (16, 16, 16, 16),
        (16, 16, 64, 16),
        (17, 9, 20, 31),
        (100, 1, 0, 0),
        (64, 30, 100, 128),
        (512, 4, 512, 1000),
    ] {
        let b = device.upload(&[0x77; 4096])?;
        let packet = Copy {
            dst: pitched(at(b, 5), to),
            src: pitched(at(a, 7), from),
            width,
            rows,
        };
        device.copy(stream, &packet)?;
        let mut expected = vec![0x77; 4096];
        for row in 0..rows {
            let (d, s) = ((5 + row * to) as usize, (7 + row * from) as usize);
            expected[d..][..width as usize].copy_from_slice(&data[s..][..width as usize]);
        }
        check!(
            device.download(stream, b, 4096)? == expected,
            "{rows} rows of {width} bytes, {from} bytes apart in the source and {to} in the destination"
        );
        device.free(b)?;
    }
    Ok(())
}

fn host_rows(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let data = noise(2000, 5);
    let buffer = device.upload(&[0; 2000])?;
    let up = Copy {
        dst: pitched(at(buffer, 0), 25),
        src: pitched(host(data.as_ptr().cast_mut()), 100),
        width: 25,
        rows: 20,
    };
    device.copy(stream, &up)?;
    let mut back = vec![0_u8; 2000];
    let down = Copy {
        dst: pitched(host(back.as_mut_ptr()), 100),
        src: pitched(at(buffer, 0), 25),
        width: 25,
        rows: 20,
    };
    device.copy(stream, &down)?;
    device.join(stream)?;
    for (row, (found, sent)) in back.chunks(100).zip(data.chunks(100)).enumerate() {
        check!(found[..25] == sent[..25], "row {row} came back changed");
        check!(
            found[25..].iter().all(|&b| b == 0),
            "bytes between rows {row} and {} were written",
            row + 1
        );
    }
    Ok(())
}

fn nothing(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[4; 64])?);
    for (width, rows) in [(0, 1), (0, 0), (16, 0), (0, 9)] {
        let packet = Copy {
            width,
            rows,
            ..copy(at(buffer, 0), at(buffer, 32), 0)
        };
        device.copy(stream, &packet)?;
    }
    device.fill(stream, &fill(buffer, 64, 0, 1, 8))?;
    check_eq!(device.download(stream, buffer, 64)?, vec![4; 64], "the buffer");
    Ok(())
}

fn without_a_buffer(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(64)?);
    let mut data = [0_u8; 128];
    let ptr = data.as_mut_ptr();
    let null = host(std::ptr::null_mut());
    for (what, dst, src) in [
        ("from host to host", host(ptr), host(ptr.wrapping_add(64))),
        ("from null", at(buffer, 0), null),
        ("to null", null, at(buffer, 0)),
        ("from null to null", null, null),
    ] {
        let status = device
            .copy(stream, &copy(dst, src, 16))
            .map_err(|error| error.status);
        check_eq!(status, Err(Status::InvalidArgument), "a copy {what}");
    }
    Ok(())
}

fn overlap(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[1; 256])?);
    for (to, from, width) in [(0, 0, 1), (0, 0, 256), (0, 15, 16), (15, 0, 16), (100, 90, 50)] {
        let status = device
            .copy(stream, &copy(at(buffer, to), at(buffer, from), width))
            .map_err(|error| error.status);
        check_eq!(
            status,
            Err(Status::Overlap),
            "a copy of {width} bytes from {from} to {to}"
        );
    }
    let rows = Copy {
        dst: pitched(at(buffer, 0), 32),
        src: pitched(at(buffer, 32), 32),
        width: 16,
        rows: 3,
    };
    let status = device.copy(stream, &rows).map_err(|error| error.status);
    check_eq!(
        status,
        Err(Status::Overlap),
        "rows whose second is the source's first"
    );
    for (to, from, width) in [(0, 16, 16), (16, 0, 16), (0, 128, 128)] {
        device.copy(stream, &copy(at(buffer, to), at(buffer, from), width))?;
    }
    Ok(device.join(stream)?)
}

fn out_of_bounds(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let (a, b) = (device.upload(&[1; 100])?, device.upload(&[2; 100])?);
    let mut data = [3_u8; 200];
    for (offset, width) in [
        (0, 101),
        (1, 100),
        (100, 1),
        (101, 1),
        (99, 2),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
        (1, u64::MAX),
        (0, u64::MAX),
        (u64::MAX - 50, 100),
        (1 << 63, 1),
    ] {
        let small = width.min(100);
        let attempts = [
            (
                "to the buffer from the host",
                at(a, offset),
                host(data.as_mut_ptr()),
                width,
            ),
            (
                "from the buffer to the host",
                host(data.as_mut_ptr()),
                at(a, offset),
                width,
            ),
            ("to the buffer from another", at(a, offset), at(b, 0), small),
            ("from the buffer to another", at(b, 0), at(a, offset), small),
        ];
        for (what, dst, src, width) in attempts {
            if offset.checked_add(width).is_some_and(|end| end <= 100) {
                continue;
            }
            let status = device
                .copy(stream, &copy(dst, src, width))
                .map_err(|error| error.status);
            let typed = matches!(status, Err(Status::OutOfBounds | Status::InvalidArgument));
            check!(
                typed,
                "a copy {what} of {width} bytes at {offset} of 100: {status:?}"
            );
        }
    }
    check_eq!(
        device.download(stream, a, 100)?,
        vec![1; 100],
        "the buffer after copies that were refused"
    );
    check_eq!(
        device.download(stream, b, 100)?,
        vec![2; 100],
        "the other buffer after the same"
    );
    check_eq!(data, [3; 200], "host memory after the same");
    // The last byte can be reached.
    device.copy(stream, &copy(at(a, 99), at(b, 0), 1))?;
    device.copy(stream, &copy(at(a, 0), at(b, 0), 100))?;
    Ok(device.join(stream)?)
}

fn rows_out_of_bounds(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let (a, b) = (device.alloc(1000)?, device.alloc(10_000)?);
    for (offset, width, rows, pitch, fits) in [
        (0, 10, 10, 110, true),
        (0, 11, 10, 110, false),
        (1, 10, 10, 110, false),
        (0, 10, 11, 110, false),
        (0, 10, 10, 111, false),
        (0, 10, 2, u64::MAX, false),
        (0, 10, u64::MAX, u64::MAX, false),
        (0, 1, 1 << 63, 2, false),
        (8, 8, 2, u64::MAX - 8, false),
        (8, 8, 3, 1 << 63, false),
    ] {
        for to in [true, false] {
            let place = pitched(at(a, offset), pitch);
            let other = pitched(at(b, 0), width);
            let packet = Copy {
                dst: if to { place } else { other },
                src: if to { other } else { place },
                width,
                rows,
            };
            let status = device.copy(stream, &packet).map_err(|error| error.status);
            let right = match status {
                Ok(()) => fits,
                Err(Status::OutOfBounds | Status::InvalidArgument) => !fits,
                Err(_) => false,
            };
            check!(
                right,
                "{rows} rows of {width} bytes, {pitch} apart, at {offset} of 1000: {status:?}"
            );
        }
    }
    Ok(device.join(stream)?)
}

fn pitch_below_width(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, a, b) = (device.stream()?, device.alloc(1000)?, device.alloc(1000)?);
    for (to, from) in [(15, 16), (16, 15), (0, 0), (0, 16)] {
        let packet = Copy {
            dst: pitched(at(a, 0), to),
            src: pitched(at(b, 0), from),
            width: 16,
            rows: 2,
        };
        let status = device.copy(stream, &packet).map_err(|error| error.status);
        check_eq!(
            status,
            Err(Status::InvalidArgument),
            "rows of 16 bytes, {from} and {to} apart"
        );
    }
    Ok(())
}

fn between_devices(subject: &Subject) -> Check {
    let (here, there) = (Device::open(subject)?, Device::open(subject)?);
    let data = noise(3000, 8);
    let (source, target) = (here.upload(&data)?, there.upload(&[0; 3000])?);
    let stream = there.stream()?;
    there.copy(stream, &copy(at(target, 100), at(source, 0), 2900))?;
    let found = there.download(stream, target, 3000)?;
    check!(
        found[100..] == data[..2900],
        "a copy between devices, on the destination's stream"
    );
    let back = here.stream()?;
    let again = here.alloc(2900)?;
    here.copy(back, &copy(at(again, 0), at(target, 100), 2900))?;
    check!(
        here.download(back, again, 2900)? == data[..2900],
        "a copy from another device"
    );
    here.copy(back, &copy(at(target, 0), at(source, 0), 100))?;
    here.join(back)?;
    check!(
        there.download(stream, target, 100)? == data[..100],
        "a copy on the source's stream"
    );
    Ok(())
}

fn patterns(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let pattern = 0x8877_6655_4433_2211_u64;
    for width in [1_u64, 2, 4, 8] {
        for (offset, count) in [(0, 1), (0, 100), (1, 1), (3, 33), (7, 57)] {
            let buffer = device.upload(&[0xcc; 1000])?;
            let (start, len) = ((offset * width) as usize, (count * width) as usize);
            device.fill(
                stream,
                &fill(buffer, start as u64, len as u64, pattern, width as u32),
            )?;
            let mut expected = vec![0xcc; 1000];
            for (i, byte) in expected[start..start + len].iter_mut().enumerate() {
                *byte = pattern.to_le_bytes()[i % width as usize];
            }
            check!(
                device.download(stream, buffer, 1000)? == expected,
                "{count} times a pattern of {width} bytes at {start}"
            );
            device.free(buffer)?;
        }
    }
    Ok(())
}

fn fill_large(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let bytes = (3 << 20) + 8;
    let buffer = device.alloc(bytes)?;
    device.fill(stream, &fill(buffer, 0, bytes, 0x0102_0304_0506_0708, 8))?;
    let found = device.download(stream, buffer, bytes)?;
    check!(
        found.chunks(8).all(|part| part == [8, 7, 6, 5, 4, 3, 2, 1]),
        "a fill of 3 MiB"
    );
    Ok(())
}

fn fill_refused(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.upload(&[6; 64])?);
    for (offset, bytes, width, expected) in [
        (0, 8, 0, Status::InvalidArgument),
        (0, 9, 3, Status::InvalidArgument),
        (0, 16, 16, Status::InvalidArgument),
        (0, 8, u32::MAX, Status::InvalidArgument),
        (1, 8, 8, Status::InvalidArgument),
        (2, 4, 4, Status::InvalidArgument),
        (1, 2, 2, Status::InvalidArgument),
        (0, 9, 8, Status::InvalidArgument),
        (0, 3, 2, Status::InvalidArgument),
        (0, 65, 1, Status::OutOfBounds),
        (64, 1, 1, Status::OutOfBounds),
        (64, 8, 8, Status::OutOfBounds),
        (u64::MAX, 1, 1, Status::OutOfBounds),
        (u64::MAX - 7, 8, 8, Status::OutOfBounds),
        (8, u64::MAX - 7, 8, Status::OutOfBounds),
    ] {
        let status = device
            .fill(stream, &fill(buffer, offset, bytes, 1, width))
            .map_err(|error| error.status);
        check_eq!(
            status,
            Err(expected),
            "{bytes} bytes at {offset} of 64 with a pattern of {width}"
        );
    }
    check_eq!(
        device.download(stream, buffer, 64)?,
        vec![6; 64],
        "the buffer after fills that were refused"
    );
    Ok(())
}
