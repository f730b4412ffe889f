//! Copies of every way: in pieces, between devices, of memory that is pinned in part, of rows far apart.

use super::{cuda, device};
use thalweg::hal::{Buffer, Copy, Device, DeviceOptions, Fill, Graph, Node, Place, Status, Stream};

/// Large pageable copies both ways, beside a second stream, through pieces of pinned memory.
#[test]
fn copies_in_pieces() {
    let device = device(0);
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    let data: Vec<u32> = (0..9_000_001_u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let buffers = streams
        .each_ref()
        .map(|stream| Buffer::from_slice(stream, &data).unwrap());
    for (stream, buffer) in streams.iter().zip(&buffers) {
        assert!(buffer.download::<u32>(stream).unwrap() == data);
    }
    // Rows with gaps on both sides.
    let (width, rows, pitch) = (1000_u64, 9000_u64, 1024_u64);
    let mut back = vec![0_u8; (pitch * rows) as usize];
    // SAFETY: `back` has room for the rows and lives until the stream is done.
    let to = unsafe { Place::host(back.as_mut_ptr()) }.pitch(pitch);
    let from = Place::buffer(&buffers[0], 4).pitch(3000);
    streams[0].copy(&Copy::new(to, from, width).rows(rows)).unwrap();
    streams[0].synchronize().unwrap();
    let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
    for row in 0..rows {
        let (at, source) = ((row * pitch) as usize, (4 + row * 3000) as usize);
        assert_eq!(back[at..at + 1000], bytes[source..source + 1000], "row {row}");
        assert!(
            row + 1 == rows || back[at + 1000..at + 1024] == [0; 24],
            "row {row}"
        );
    }
}

/// Copies with more commands than the driver's queue holds: whoever submits waits for room while the host does its part.
#[test]
fn copies_longer_than_the_queue() {
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let mut data = vec![7_u8; 400 << 20];
    data.iter_mut()
        .step_by(1 << 20)
        .zip(1..)
        .for_each(|(byte, at)| *byte = at as u8);
    let buffer = Buffer::from_slice(&stream, &data).unwrap();
    assert!(buffer.download::<u8>(&stream).unwrap() == data);
}

/// From one device to another.
#[test]
fn copies_between_devices() {
    let cuda = cuda();
    let [here, there] = [0, 4].map(|ordinal| cuda.open(&DeviceOptions::new(ordinal)).unwrap());
    let (stream, other) = (Stream::new(&here).unwrap(), Stream::new(&there).unwrap());
    let data: Vec<u32> = (0..100_000).collect();
    let (from, to) = (
        Buffer::from_slice(&stream, &data).unwrap(),
        there.alloc(400_000).unwrap(),
    );
    let copy = Copy::new(Place::buffer(&to, 0), Place::buffer(&from, 0), 400_000);
    stream.copy(&copy).unwrap();
    stream.synchronize().unwrap();
    assert!(to.download::<u32>(&other).unwrap() == data);
    // A list of work stays on its device.
    let error = Graph::new(&here, &[Node::new(copy, &[])]).unwrap_err();
    assert_eq!(error.status(), Status::InvalidHandle);
    assert!(error.to_string().contains("another device"), "{error}");
}

/// Copies of one graph of the driver: rows, rows far apart, and fills around them.
#[test]
fn copies_in_graphs() {
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let data: Vec<u32> = (0..100_000).collect();
    let from = Buffer::from_slice(&stream, &data).unwrap();
    let [to, rows, other] = [(); 3].map(|()| device.alloc(400_000).unwrap());
    let nodes = [
        Node::new(
            Copy::new(Place::buffer(&to, 0), Place::buffer(&from, 0), 400_000),
            &[],
        ),
        Node::new(Fill::new(&rows, 7_u32), &[]),
        Node::new(
            Copy::new(
                Place::buffer(&rows, 0).pitch(40),
                Place::buffer(&to, 4).pitch(80),
                12,
            )
            .rows(5000),
            &[],
        ),
        // Eight bytes of two different words.
        Node::new(Fill::new(&from, 1.5_f64), &[]),
        Node::new(Copy::new(Place::buffer(&to, 0), Place::buffer(&from, 0), 8), &[0]),
    ];
    let mut graph = Graph::new(&device, &nodes).unwrap();
    let mut expected = vec![7_u32; 100_000];
    for row in 0..5000 {
        expected[10 * row..][..3].copy_from_slice(&data[20 * row + 1..][..3]);
    }
    for round in 0..3 {
        graph.launch(&stream).unwrap();
        let place = if round == 2 { &other } else { &rows };
        assert!(
            place.download::<u32>(&stream).unwrap() == expected,
            "round {round}"
        );
        assert!(from.download::<f64>(&stream).unwrap() == [1.5; 50_000]);
        assert!(to.download::<f64>(&stream).unwrap()[0] == 1.5);
        from.upload(&stream, &data).unwrap();
        if round == 1 {
            graph.rebind(&rows, &other, 0).unwrap();
        }
    }
}

/// A copy on a stream, and between buffers as a node of a graph too; the stream is done with both afterwards.
fn both_ways(device: &Device, stream: &Stream, copy: Copy<'_>, check: impl Fn(&str)) {
    stream.copy(&copy).unwrap();
    stream.synchronize().unwrap();
    check("on a stream");
    let graph = match Graph::new(device, &[Node::new(copy, &[])]) {
        Ok(graph) => graph,
        Err(error) => {
            assert_eq!(error.status(), Status::InvalidArgument);
            assert!(error.to_string().contains("slot to slot"), "{error}");
            return;
        }
    };
    graph.launch(stream).unwrap();
    stream.synchronize().unwrap();
    check("in a graph");
}

/// Host memory of which some pages are imported, and pinned with that: the driver refuses such ranges as a whole.
#[test]
fn copies_of_memory_that_is_pinned_in_part() {
    const PAGE: usize = 4096;
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    for pages in [12, 600] {
        let mut memory = vec![0_u8; (pages + 1) * PAGE];
        let skip = memory.as_ptr().align_offset(PAGE);
        let memory = &mut memory[skip..skip + pages * PAGE];
        let start = memory.as_mut_ptr();
        for (first, count) in [(0, 3), (4, 4), (pages - 2, 2), (0, pages)] {
            for (i, byte) in memory.iter_mut().enumerate() {
                *byte = (i * 7 % 251) as u8;
            }
            let data = memory.to_vec();
            // SAFETY: the pages outlive the buffer.
            let imported = unsafe {
                let at = start.add(first * PAGE);
                Buffer::import(&device, at, (count * PAGE) as u64, None, std::ptr::null_mut()).unwrap()
            };
            let buffer = device.alloc(data.len() as u64).unwrap();
            let bytes = data.len() as u64;
            // SAFETY: the memory outlives the copies.
            let host = || unsafe { Place::host(start) };
            both_ways(
                &device,
                &stream,
                Copy::new(Place::buffer(&buffer, 0), host(), bytes),
                |how| {
                    let found = buffer.download::<u8>(&stream).unwrap();
                    assert!(
                        found == data,
                        "{pages} pages, {count} from {first} pinned, up {how}"
                    );
                },
            );
            // What the device writes to the pinned part is what a copy after it takes.
            imported.fill(&stream, 9_u8).unwrap();
            stream
                .copy(&Copy::new(Place::buffer(&buffer, 0), host(), bytes))
                .unwrap();
            let mut expected = data.clone();
            expected[first * PAGE..(first + count) * PAGE].fill(9);
            let found = buffer.download::<u8>(&stream).unwrap();
            assert!(
                found == expected,
                "{pages} pages, {count} from {first} pinned, written"
            );
            buffer.fill(&stream, 5_u8).unwrap();
            both_ways(
                &device,
                &stream,
                Copy::new(host(), Place::buffer(&buffer, 0), bytes),
                |how| {
                    // SAFETY: the memory that `memory` borrows, which the stream is done with.
                    let found = unsafe { std::slice::from_raw_parts(start, data.len()) };
                    assert!(found.iter().all(|&byte| byte == 5), "{pages} pages, down {how}");
                },
            );
            drop(imported);
        }
    }
}

/// Rows further apart than the driver takes (2 GiB), and rows without gaps.
#[test]
fn copies_of_rows_far_apart() {
    const FAR: u64 = 1 << 31;
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let data: Vec<u8> = (0..200).collect();
    let (far, near) = (device.alloc(FAR + 100).unwrap(), device.alloc(200).unwrap());
    let apart = || Place::buffer(&far, 0).pitch(FAR);
    let together = || Place::buffer(&near, 0).pitch(100);
    let fill_near = |value: &[u8]| {
        let source = Buffer::from_slice(&stream, value).unwrap();
        let copy = Copy::new(Place::buffer(&near, 0), Place::buffer(&source, 0), 200);
        stream.copy(&copy).unwrap();
        stream.synchronize().unwrap();
    };
    let expect_near = |how: &str| assert!(near.download::<u8>(&stream).unwrap() == data, "{how}");
    fill_near(&data);
    both_ways(
        &device,
        &stream,
        Copy::new(apart(), together(), 100).rows(2),
        |_| (),
    );
    fill_near(&[0; 200]);
    both_ways(
        &device,
        &stream,
        Copy::new(together(), apart(), 100).rows(2),
        expect_near,
    );
    // To and from host memory.
    let mut host = vec![0_u8; 200];
    let place = host.as_mut_ptr();
    // SAFETY: room for the rows, until the stream is done.
    let memory = || unsafe { Place::host(place) }.pitch(100);
    both_ways(
        &device,
        &stream,
        Copy::new(memory(), apart(), 100).rows(2),
        |how| {
            // SAFETY: the bytes of `host`, which the stream is done with.
            let found = unsafe { std::slice::from_raw_parts(place, 200) };
            assert!(found == data, "down {how}");
        },
    );
    far.fill(&stream, 0_u8).unwrap();
    both_ways(
        &device,
        &stream,
        Copy::new(apart(), memory(), 100).rows(2),
        |_| (),
    );
    fill_near(&[0; 200]);
    both_ways(
        &device,
        &stream,
        Copy::new(together(), apart(), 100).rows(2),
        expect_near,
    );
    // Rows that lie together are one.
    let other = device.alloc(200).unwrap();
    let joined = Copy::new(
        Place::buffer(&other, 0).pitch(50),
        Place::buffer(&near, 0).pitch(50),
        50,
    );
    both_ways(&device, &stream, joined.rows(4), |how| {
        assert!(other.download::<u8>(&stream).unwrap() == data, "joined {how}");
    });
    drop(host);
}
