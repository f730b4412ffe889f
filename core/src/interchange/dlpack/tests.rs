//! Structs as in the standard's header, and who frees what when.

use super::*;
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicUsize, Ordering};

fn context() -> Context {
    Context::new("cpu").unwrap()
}

/// Memory that another library lends, and how often it was given back.
struct Lender {
    managed: DlManagedTensorVersioned,
    data: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    freed: Arc<AtomicUsize>,
}

unsafe extern "C" fn give_back(raw: *mut DlManagedTensorVersioned) {
    // SAFETY: the tests' lenders are boxes.
    let lender = unsafe { Box::from_raw((*raw).manager_ctx.cast::<Lender>()) };
    lender.freed.fetch_add(1, Ordering::SeqCst);
}

/// The lent struct, as other libraries hand it over, after `change`.
fn lend(
    data: Vec<f32>,
    shape: &[i64],
    strides: Option<&[i64]>,
    byte_offset: u64,
    change: impl FnOnce(&mut DlManagedTensorVersioned),
) -> (NonNull<DlManagedTensorVersioned>, Arc<AtomicUsize>) {
    let freed = Arc::new(AtomicUsize::new(0));
    let mut lender = Box::new(Lender {
        managed: DlManagedTensorVersioned {
            version: DlPackVersion { major: 1, minor: 1 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(give_back),
            flags: 0,
            dl_tensor: DlTensor {
                data: std::ptr::null_mut(),
                device: DlDevice {
                    device_type: 1,
                    device_id: 0,
                },
                ndim: shape.len() as i32,
                dtype: DlDataType {
                    code: 2,
                    bits: 32,
                    lanes: 1,
                },
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset,
            },
        },
        data,
        shape: shape.to_vec(),
        strides: strides.unwrap_or_default().to_vec(),
        freed: Arc::clone(&freed),
    });
    let tensor = &mut lender.managed.dl_tensor;
    tensor.data = lender.data.as_mut_ptr().cast();
    tensor.shape = lender.shape.as_mut_ptr();
    if strides.is_some() {
        tensor.strides = lender.strides.as_mut_ptr();
    }
    change(&mut lender.managed);
    let raw = Box::into_raw(lender);
    // SAFETY: the box was just made.
    unsafe {
        (*raw).managed.manager_ctx = raw.cast();
        (NonNull::new_unchecked(&raw mut (*raw).managed), freed)
    }
}

fn borrowed(raw: NonNull<DlManagedTensorVersioned>, cx: &Context) -> Result<Tensor> {
    // SAFETY: `lend` makes valid structs.
    import(unsafe { Managed::from_raw(raw) }?, cx)
}

#[test]
fn structs_are_those_of_the_header() {
    // From dlpack.h of 1.1, for 64-bit systems.
    assert_eq!(
        (
            size_of::<DlDevice>(),
            size_of::<DlDataType>(),
            size_of::<DlTensor>()
        ),
        (8, 4, 48)
    );
    let tensor = [
        offset_of!(DlTensor, data),
        offset_of!(DlTensor, device),
        offset_of!(DlTensor, ndim),
        offset_of!(DlTensor, dtype),
        offset_of!(DlTensor, shape),
        offset_of!(DlTensor, strides),
        offset_of!(DlTensor, byte_offset),
    ];
    assert_eq!(tensor, [0, 8, 16, 20, 24, 32, 40]);
    let versioned = [
        offset_of!(DlManagedTensorVersioned, version),
        offset_of!(DlManagedTensorVersioned, manager_ctx),
        offset_of!(DlManagedTensorVersioned, deleter),
        offset_of!(DlManagedTensorVersioned, flags),
        offset_of!(DlManagedTensorVersioned, dl_tensor),
    ];
    assert_eq!(
        (versioned, size_of::<DlManagedTensorVersioned>()),
        ([0, 8, 16, 24, 32], 80)
    );
    let old = [
        offset_of!(DlManagedTensor, dl_tensor),
        offset_of!(DlManagedTensor, manager_ctx),
        offset_of!(DlManagedTensor, deleter),
    ];
    assert_eq!((old, size_of::<DlManagedTensor>()), ([0, 48, 56], 64));
}

#[test]
fn lent_memory_is_used_in_place_and_given_back_last() {
    let cx = context();
    let (raw, freed) = lend((0..12).map(|n| n as f32).collect(), &[3, 4], None, 0, |_| {});
    let x = borrowed(raw, &cx).unwrap();
    // SAFETY: the lender lives.
    let data = unsafe { raw.as_ref().dl_tensor.data };
    let again = export(&x).unwrap();
    assert_eq!(again.tensor().data, data);
    let view = x.t().index(1);
    drop(x);
    let sum = &view + 0.5;
    assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 5.0, 9.0]);
    drop(view);
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    drop(again);
    assert_eq!(sum.to_vec::<f32>().unwrap(), [1.5, 5.5, 9.5]);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn strides_and_offsets_name_the_same_elements() {
    let cx = context();
    let data: Vec<f32> = (0..12).map(|n| n as f32).collect();
    type Case<'a> = (&'a [i64], Option<&'a [i64]>, u64, Vec<f32>);
    let cases: [Case<'_>; 7] = [
        (&[2, 2], Some(&[4, 2]), 4, vec![1.0, 3.0, 5.0, 7.0]),
        (&[3], Some(&[-2]), 20, vec![5.0, 3.0, 1.0]),
        (&[2, 3], Some(&[0, 1]), 8, vec![2.0, 3.0, 4.0, 2.0, 3.0, 4.0]),
        (&[2, 2], Some(&[-4, 1]), 16, vec![4.0, 5.0, 0.0, 1.0]),
        (&[2], None, 12, vec![3.0, 4.0]),
        (&[], None, 40, vec![10.0]),
        (&[0, 5], None, 0, vec![]),
    ];
    for (shape, strides, offset, wanted) in cases {
        let (raw, freed) = lend(data.clone(), shape, strides, offset, |_| {});
        let x = borrowed(raw, &cx).unwrap();
        assert_eq!(
            x.to_vec::<f32>().unwrap(),
            wanted,
            "{shape:?} {strides:?} {offset}"
        );
        assert_eq!(
            (&x * 2.0).to_vec::<f32>().unwrap(),
            wanted.iter().map(|x| 2.0 * x).collect::<Vec<_>>()
        );
        drop(x);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn memory_that_is_not_aligned_is_copied() {
    let cx = context();
    let (raw, freed) = lend(vec![0.0; 3], &[2], None, 0, |managed| {
        let bytes = managed.dl_tensor.data.cast::<u8>();
        // SAFETY: twelve bytes are there.
        unsafe { bytes.add(1).cast::<f32>().write_unaligned(2.5) };
        managed.dl_tensor.byte_offset = 1;
    });
    let x = borrowed(raw, &cx).unwrap();
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.5, 0.0]);
}

#[test]
fn truth_values_are_0_and_1() {
    let cx = context();
    let (raw, _) = lend(vec![0.0; 1], &[4], None, 0, |managed| {
        managed.dl_tensor.dtype = DlDataType {
            code: 6,
            bits: 8,
            lanes: 1,
        };
        let bytes = managed.dl_tensor.data.cast::<u8>();
        for (at, byte) in [0, 1, 2, 255].into_iter().enumerate() {
            // SAFETY: the float has four bytes.
            unsafe { bytes.add(at).write(byte) };
        }
    });
    let x = borrowed(raw, &cx).unwrap();
    assert_eq!(x.to_le_bytes().unwrap(), [0, 1, 1, 1]);
    assert_eq!(x.cast(DType::I32).to_vec::<i32>().unwrap(), [0, 1, 1, 1]);
}

#[test]
fn what_is_refused_is_given_back() {
    let cx = context();
    type Change = fn(&mut DlManagedTensorVersioned);
    let cases: [(Change, &str); 9] = [
        (|m| m.version.major = 2, "version 2.1, this library reads 1.x"),
        (
            |m| m.dl_tensor.device.device_type = 2,
            "memory of device type 2, number 0",
        ),
        (
            |m| m.dl_tensor.dtype.code = 5,
            "elements of code 5, 32 bits, 1 lanes",
        ),
        (
            |m| m.dl_tensor.dtype.lanes = 4,
            "elements of code 2, 32 bits, 4 lanes",
        ),
        (|m| m.dl_tensor.dtype.bits = 8, "elements of code 2, 8 bits"),
        (|m| m.dl_tensor.ndim = 9, "9 axes, at most 8"),
        (|m| m.dl_tensor.ndim = -1, "-1 axes"),
        (|m| m.dl_tensor.data = std::ptr::null_mut(), "from 0x0"),
        (|m| m.dl_tensor.shape = std::ptr::null_mut(), "the shape is null"),
    ];
    for (change, error) in cases {
        let (raw, freed) = lend(vec![0.0; 4], &[2, 2], Some(&[2, 1]), 0, change);
        let got = borrowed(raw, &cx).unwrap_err().to_string();
        assert!(got.starts_with("DLPack: ") && got.contains(error), "{got}");
        assert_eq!(freed.load(Ordering::SeqCst), 1, "{error}");
    }
    let cases: [(&[i64], &[i64]); 4] = [
        (&[-1], &[1]),
        (&[i64::MAX, i64::MAX], &[1, 1]),
        (&[2], &[i64::MAX]),
        (&[2, 2], &[i64::MIN, i64::MIN]),
    ];
    for (shape, strides) in cases {
        let (raw, freed) = lend(vec![0.0; 4], shape, Some(strides), 0, |_| {});
        assert!(borrowed(raw, &cx).is_err(), "{shape:?} {strides:?}");
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn exports_say_what_they_are_and_hold_their_memory() {
    let cx = context();
    let base = Tensor::from_slice(&[1_i16, 2, 3, 4, 5, 6], [2, 3], &cx);
    let view = base.index((.., 1..)).t();
    let lent = export(&view).unwrap();
    drop((base, view));
    let tensor = lent.tensor();
    assert_eq!(
        (tensor.device.device_type, tensor.ndim, tensor.byte_offset),
        (1, 2, 2)
    );
    assert_eq!(
        tensor.dtype,
        DlDataType {
            code: 0,
            bits: 16,
            lanes: 1
        }
    );
    assert_eq!(lent.flags(), READ_ONLY);
    // SAFETY: two axes.
    let (shape, strides) = unsafe {
        (
            std::slice::from_raw_parts(tensor.shape, 2),
            std::slice::from_raw_parts(tensor.strides, 2),
        )
    };
    assert_eq!((shape, strides), (&[2, 2][..], &[1, 3][..]));
    let raw = lent.into_raw().unwrap();
    // SAFETY: the struct was just given up, and this is its only user.
    let again = import(unsafe { Managed::from_raw(raw) }.unwrap(), &cx).unwrap();
    assert_eq!(again.to_vec::<i16>().unwrap(), [2, 5, 3, 6]);
    for dtype in DType::ALL {
        let x = Tensor::ones([2, 2], dtype, &cx);
        let lent = export(&x).unwrap();
        let again = import(lent, &cx).unwrap();
        assert_eq!(
            (again.dtype().unwrap(), again.to_le_bytes().unwrap()),
            (dtype, x.to_le_bytes().unwrap())
        );
        // SAFETY: the struct is nobody else's.
        let old = unsafe { Managed::from_unversioned(export_unversioned(&x).unwrap()) };
        assert_eq!(
            (old.flags(), old.tensor().dtype),
            (0, export(&x).unwrap().tensor().dtype)
        );
        assert!(old.into_raw().is_none());
    }
    // What is recorded is computed first.
    cx.set_mode(crate::Mode::Graph);
    let sum = Tensor::ones([3], DType::F32, &cx) + 1.0;
    assert_eq!(
        import(export(&sum).unwrap(), &cx)
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [2.0; 3]
    );
}
