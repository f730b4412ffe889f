//! Arrays that NumPy wrote, and NumPy's bytes.

use super::*;
use crate::interchange::npz::{self, Archive, Compression};
use std::io::Cursor;

fn archive() -> Archive<std::io::BufReader<File>> {
    Archive::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/arrays.npz")).unwrap()
}

fn context() -> Context {
    Context::new("cpu").unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).to_vec::<f64>().unwrap()
}

/// Kind in NumPy, dtype, and the six values of the file.
fn kinds() -> Vec<(&'static str, DType, [f64; 6])> {
    let (halves, signed, counts) = (
        [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5],
        [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0],
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    );
    vec![
        ("f8", DType::F64, halves),
        ("f4", DType::F32, halves),
        ("f2", DType::F16, halves),
        ("i8", DType::I64, signed),
        ("i4", DType::I32, signed),
        ("i2", DType::I16, signed),
        ("i1", DType::I8, signed),
        ("u8", DType::U64, counts),
        ("u4", DType::U32, counts),
        ("u2", DType::U16, counts),
        ("u1", DType::U8, counts),
    ]
}

#[test]
fn arrays_of_numpy_have_their_values() {
    let (cx, mut file) = (context(), archive());
    let mut check = |name: &str, dtype: DType, shape: &[usize], wanted: &[f64]| {
        let tensor = file.tensor(name, &cx).unwrap();
        assert_eq!(
            (tensor.dtype().unwrap(), &tensor.shape().unwrap()[..]),
            (dtype, shape),
            "{name}"
        );
        assert_eq!(values(&tensor), wanted, "{name}");
    };
    for (kind, dtype, wanted) in kinds() {
        check(&format!("little_{kind}"), dtype, &[2, 3], &wanted);
        check(&format!("big_{kind}"), dtype, &[2, 3], &wanted);
    }
    check("bool", DType::Bool, &[2, 3], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    check("bf16", DType::BF16, &[2, 3], &[-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]);
    let counted: Vec<f64> = (0..24).map(f64::from).collect();
    check("fortran", DType::I32, &[2, 3, 4], &counted);
    check("fortran_big", DType::F64, &[2, 3], &counted[..6]);
    check("scalar", DType::F64, &[], &[3.5]);
    check("empty", DType::F32, &[0, 3], &[]);
    check("line", DType::I64, &[3], &[1.0, 2.0, 3.0]);
    let special = file.tensor("special", &cx).unwrap().to_vec::<f64>().unwrap();
    let wanted = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324];
    assert_eq!(special.map_bits(), wanted.to_vec().map_bits());
}

trait Bits {
    fn map_bits(&self) -> Vec<u64>;
}

impl Bits for Vec<f64> {
    fn map_bits(&self) -> Vec<u64> {
        self.iter().map(|value| value.to_bits()).collect()
    }
}

#[test]
fn later_versions_of_the_format_are_read() {
    let (cx, mut file) = (context(), archive());
    for name in ["version2", "version3"] {
        let bytes = file.tensor(name, &cx).unwrap().to_vec::<u8>().unwrap();
        assert_eq!(
            decode(&bytes, &cx).unwrap().to_vec::<i64>().unwrap(),
            [1, 2, 3],
            "{name}"
        );
    }
}

#[test]
fn what_is_written_is_what_numpy_writes() {
    let (cx, mut file) = (context(), archive());
    let mut zip = zip::ZipArchive::new(
        File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/arrays.npz")).unwrap(),
    )
    .unwrap();
    let kinds = kinds();
    let names = kinds.iter().map(|(kind, ..)| format!("little_{kind}"));
    for name in names.chain(["bool", "bf16", "scalar", "empty", "line", "special"].map(String::from)) {
        let mut wanted = Vec::new();
        zip.by_name(&format!("{name}.npy"))
            .unwrap()
            .read_to_end(&mut wanted)
            .unwrap();
        let tensor = file.tensor(&name, &cx).unwrap();
        assert_eq!(encode(&tensor).unwrap(), wanted, "{name}");
    }
    let turned = file.tensor("fortran", &cx).unwrap();
    let again = decode(&encode(&turned).unwrap(), &cx).unwrap();
    assert_eq!(again.to_vec::<i32>().unwrap(), turned.to_vec::<i32>().unwrap());
}

#[test]
fn what_tensors_cannot_hold_is_refused_by_name() {
    let (cx, mut file) = (context(), archive());
    for (name, error) in [
        ("complex", "tensors have no type for NumPy's \"<c8\""),
        ("text", "tensors have no type for NumPy's \"<U2\""),
        ("record", "records cannot become tensors"),
        ("nine", "has 9 axes, at most 8"),
        ("nothing", "there is no such array; found: little_f8, little_f4"),
    ] {
        let got = file.tensor(name, &cx).unwrap_err().to_string();
        assert!(
            got.contains(error) && got.contains(&format!("npz: {name}: ")),
            "{name}: {got}"
        );
    }
}

/// NumPy has no name for them, and `ml_dtypes` gives several one type string.
#[test]
fn floats_of_eight_bits_are_refused() {
    let cx = context();
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        let error = encode(&Tensor::ones([2], dtype, &cx)).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("npy: NumPy has no type for {dtype}; cast the tensor to f16 or bf16 first")
        );
    }
}

#[test]
fn damaged_files_are_refused() {
    let cx = context();
    let whole = encode(&Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx)).unwrap();
    let with = |text: &str| {
        let mut bytes = [
            MAGIC,
            &[1, 0],
            &(text.len() as u16).to_le_bytes(),
            text.as_bytes(),
        ]
        .concat();
        bytes.extend([0; 8]);
        bytes
    };
    let dict = |shape: &str| {
        with(&format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n"
        ))
    };
    assert_eq!(values(&decode(&dict("(2,)"), &cx).unwrap()), [0.0, 0.0]);
    assert_eq!(values(&decode(&dict("(2L,)"), &cx).unwrap()), [0.0, 0.0]);
    let quoted = with("{\"shape\": (1, 2), \"descr\": \"<f4\", \"fortran_order\": True}");
    assert_eq!(&decode(&quoted, &cx).unwrap().shape().unwrap()[..], [1, 2]);
    for (bytes, error) in [
        (
            whole[..whole.len() - 1].to_vec(),
            "[2] needs 8 bytes, 7 are there",
        ),
        ([&whole[..], &[0]].concat(), "1 bytes behind the array"),
        (whole[..9].to_vec(), "it ends in the header"),
        (vec![], "it ends in the header"),
        (b"PK\x03\x04....".to_vec(), "it does not begin with"),
        (b"\x93NUMPY\x09\x00v\x00".to_vec(), "version 9 of the format"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
            "a header of 4294967295 bytes",
        ),
        (
            dict("(18446744073709551615, 18446744073709551615)"),
            "has too many elements",
        ),
        (dict("(1000000000000,)"), "needs 4000000000000 bytes, 8 are there"),
        (dict("(-1,)"), "is no extent"),
        (dict("2"), "expected '(' in the header"),
        (
            with("{'descr': '<f4', 'shape': (2,)}"),
            "the header has no fortran_order",
        ),
        (
            with("{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}"),
            "NumPy's \"|f4\"",
        ),
        (
            with("{'descr': 'é4', 'fortran_order': False, 'shape': (2,)}"),
            "NumPy's \"é4\"",
        ),
        (with("{'code': 'x'}"), "the header has a key \"code\""),
        (with("{'descr': '<f4"), "a text in the header has no end"),
        (with("{} import os"), "behind the header"),
    ] {
        let got = decode(&bytes, &cx).unwrap_err().to_string();
        assert!(got.starts_with("npy: ") && got.contains(error), "{error}: {got}");
    }
}

#[test]
fn archives_and_files_come_back() {
    let cx = context();
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = (
        Tensor::from_slice(&[1.5_f32, -2.0, 3.0, 0.0], [2, 2], &cx),
        Tensor::from_slice(&[true, false], 2, &cx),
    );
    for compression in [Compression::Stored, Compression::Deflated] {
        let path = folder.path().join("deep/x.npz");
        npz::write(&path, &[("x", &x.t()), ("y", &y)], compression).unwrap();
        let mut file = Archive::open(&path).unwrap();
        assert_eq!(file.names(), ["x", "y"]);
        assert_eq!(
            file.tensor("x", &cx).unwrap().to_vec::<f32>().unwrap(),
            [1.5, 3.0, -2.0, 0.0]
        );
        assert_eq!(
            file.tensor("y", &cx).unwrap().to_vec::<bool>().unwrap(),
            [true, false]
        );
        let twice = npz::encode(&[("x", &x), ("x", &y)], compression)
            .unwrap_err()
            .to_string();
        assert!(twice.starts_with("npz: "), "{twice}");
        let bytes = npz::encode(&[("x", &x)], compression).unwrap();
        assert_eq!(bytes, npz::encode(&[("x", &x)], compression).unwrap());
        for cut in 0..bytes.len() {
            if let Ok(mut file) = Archive::new(Cursor::new(bytes[..cut].to_vec())) {
                assert!(file.tensor("x", &cx).is_err(), "{cut}");
            }
        }
    }
    let path = folder.path().join("x.npy");
    write(&path, &x).unwrap();
    write(&path, &y).unwrap();
    assert_eq!(read(&path, &cx).unwrap().to_vec::<bool>().unwrap(), [true, false]);
    let missing = read(folder.path().join("none.npy"), &cx).unwrap_err().to_string();
    assert!(missing.contains("none.npy: No such file"), "{missing}");
    let bad = npy_error(&x, &cx);
    assert!(bad.contains("add: "), "{bad}");
}

#[test]
fn a_damaged_archive_never_gives_other_numbers() {
    let cx = context();
    let data: Vec<f32> = (0..16).map(|n| n as f32 / 3.0).collect();
    let x = Tensor::from_slice(&data, 16, &cx);
    let plain = encode(&x).unwrap();
    for compression in [Compression::Stored, Compression::Deflated] {
        let bytes = npz::encode(&[("x", &x)], compression).unwrap();
        let mut refused = 0;
        for (at, bit) in (0..bytes.len()).flat_map(|at| [(at, 0), (at, 6)]) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let read = Archive::new(Cursor::new(damaged)).and_then(|mut file| file.tensor("x", &cx));
            match read {
                Ok(read) => assert_eq!(read.to_vec::<f32>().unwrap(), data, "bit {bit} of byte {at}"),
                Err(_) => refused += 1,
            }
        }
        // Dates and the like may change; what the array is made of may not.
        if compression == Compression::Stored {
            assert!(refused >= 2 * plain.len(), "{refused} of {}", 2 * bytes.len());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    std::fs::write(&path, [&plain[..], &[0, 0]].concat()).unwrap();
    let longer = read(&path, &cx).unwrap_err().to_string();
    assert!(longer.contains("2 bytes behind the array"), "{longer}");
}

/// An error on the way to a tensor is that of writing it.
fn npy_error(x: &Tensor, cx: &Context) -> String {
    let bad = x + Tensor::from_slice(&[1.0_f32; 3], 3, cx);
    encode(&bad).unwrap_err().to_string()
}
