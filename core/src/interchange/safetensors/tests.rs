//! Files of tensors against the format's own implementation, and files that lie.

use super::*;
use std::fs;

fn context() -> Context {
    Context::new("cpu").unwrap()
}

fn tensors(cx: &Context) -> Vec<(String, Tensor)> {
    let x = Tensor::from_slice(&[1.5_f32, -2.0, 0.0, 3.0, 4.0, 1.0], [2, 3], cx);
    let all = DType::ALL.into_iter().map(|dtype| {
        let x = if dtype == DType::Bool {
            x.gt(1.0)
        } else {
            x.abs().cast(dtype)
        };
        (format!("layer.{dtype}"), x)
    });
    let views = [
        ("turned".to_owned(), x.t()),
        ("scalar".to_owned(), Tensor::scalar(7_i64, cx)),
        ("empty".to_owned(), Tensor::zeros([0, 4], DType::F16, cx)),
    ];
    all.chain(views).collect()
}

fn saved(cx: &Context, path: &Path) -> Vec<(String, Tensor)> {
    let tensors = tensors(cx);
    let refs: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    save(path, &refs, &[("format", "pt"), ("a", "b")]).unwrap();
    tensors
}

#[test]
fn tensors_come_back_and_the_formats_own_code_reads_them() {
    let cx = context();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/model.safetensors");
    let tensors = saved(&cx, &path);
    let file = Archive::open(&path).unwrap();
    assert_eq!(file.metadata()["format"], "pt");
    let bytes = fs::read(&path).unwrap();
    let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!((theirs.len(), file.names().len()), (tensors.len(), tensors.len()));
    for (name, tensor) in &tensors {
        let read = file.tensor(name, &cx).unwrap();
        assert_eq!(read.dtype().unwrap(), tensor.dtype().unwrap());
        assert_eq!(read.shape().unwrap(), tensor.shape().unwrap());
        let data = tensor.to_le_bytes().unwrap();
        assert_eq!(read.to_le_bytes().unwrap(), data, "{name}");
        let view = theirs.tensor(name).unwrap();
        assert_eq!(
            (view.data(), view.shape()),
            (&data[..], &tensor.shape().unwrap()[..]),
            "{name}"
        );
        assert_eq!(
            format!("{:?}", view.dtype()),
            tensor.dtype().unwrap().facts().safetensors
        );
    }
    saved(&cx, &path);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn files_of_the_formats_own_code_are_read() {
    let cx = context();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs");
    let data: Vec<u8> = [1_f32, -2.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = ::safetensors::tensor::TensorView::new(::safetensors::Dtype::F32, vec![2, 1], &data).unwrap();
    fs::write(&path, ::safetensors::serialize([("x", view)], None).unwrap()).unwrap();
    let read = Archive::open(&path).unwrap().tensor("x", &cx).unwrap();
    assert_eq!(read.to_vec::<f32>().unwrap(), [1.0, -2.5]);
}

#[test]
fn a_tensor_lies_in_the_mapped_file_and_outlives_its_archive() {
    let cx = context();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let x = Tensor::ones([1 << 18], DType::F32, &cx);
    save(&path, &[("x", &x)], &[("", ""); 0]).unwrap();
    let before = cx.device().memory_stats().unwrap().allocated;
    // SAFETY: nobody writes to the file.
    let file = unsafe { Archive::map(&path) }.unwrap();
    let read = file.tensor("x", &cx).unwrap();
    assert_eq!(cx.device().memory_stats().unwrap().allocated, before);
    let Source::Map(map) = &file.source else {
        panic!("it is mapped")
    };
    let map = Arc::downgrade(map);
    drop(file);
    fs::remove_file(&path).unwrap();
    assert_eq!((&read * 2.0).sum().item::<f32>().unwrap(), 524_288.0);
    assert!(map.upgrade().is_some());
    drop(read);
    assert!(map.upgrade().is_none());
}

#[test]
fn a_file_that_is_changed_in_place_is_an_error_and_changes_no_tensor() {
    let cx = context();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let x = Tensor::ones([1 << 16], DType::F32, &cx);
    save(&path, &[("x", &x), ("y", &x)], &[("", ""); 0]).unwrap();
    let file = Archive::open(&path).unwrap();
    let read = file.tensor("x", &cx).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - (1 << 18);
    bytes[at..].fill(0x7f);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, &bytes).unwrap();
    assert_eq!(read.sum().item::<f32>().unwrap(), 65_536.0);
    for length in [bytes.len(), at] {
        let written = fs::OpenOptions::new().write(true).open(&path).unwrap();
        written.set_len(length as u64).unwrap();
        let error = file.tensor("y", &cx).unwrap_err().to_string();
        assert!(
            error.contains("was changed in place since it was opened"),
            "{error}"
        );
        assert_eq!(read.sum().item::<f32>().unwrap(), 65_536.0);
    }
    // A file that is replaced is another one.
    save(&path, &[("x", &x)], &[("", ""); 0]).unwrap();
    let file = Archive::open(&path).unwrap();
    save(&path, &[("x", &(&x * 2.0))], &[("", ""); 0]).unwrap();
    assert_eq!(
        file.tensor("x", &cx).unwrap().sum().item::<f32>().unwrap(),
        65_536.0
    );
}

#[test]
fn files_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad");
    let file = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    };
    let entry = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!("{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    };
    let one = |entry: String| format!("{{\"x\":{entry}}}");
    let two = |a: String, b: String| format!("{{\"x\":{a},\"y\":{b}}}");
    let most = u64::MAX;
    for (bytes, error) in [
        (vec![], "too short"),
        (vec![1, 2, 3], "too short"),
        (
            most.to_le_bytes().to_vec(),
            "a header of 18446744073709551615 bytes",
        ),
        (
            200_000_000_u64.to_le_bytes().to_vec(),
            "a header of 200000000 bytes",
        ),
        (file("{", 0), "header: EOF"),
        (file("[]", 0), "header: invalid type"),
        (file("{}", 3), "3 bytes belong to no tensor"),
        (file(&one(entry("F32", "[2]", 0, 8)), 7), "\"x\" lies at 0 to 8"),
        (
            file(&one(entry("F32", "[3]", 0, 8)), 8),
            "\"x\" is F32 [3] in 8 bytes",
        ),
        (
            file(&one(entry("F32", "[2]", 4, 12)), 12),
            "\"x\" lies at 4 to 12",
        ),
        (file(&one(entry("F32", "[2]", 8, 0)), 8), "\"x\" lies at 8 to 0"),
        (
            file(&one(entry("U8", "[18446744073709551615]", 0, most)), 8),
            "\"x\" lies at 0 to",
        ),
        (
            file(&one(entry("F64", "[4611686018427387905,4]", 0, 32)), 32),
            "in 32 bytes",
        ),
        (file(&one(entry("F32", "[-1]", 0, 8)), 8), "header: invalid value"),
        (
            file(&two(entry("U8", "[4]", 0, 4), entry("U8", "[4]", 2, 6)), 6),
            "\"y\" lies at 2 to 6",
        ),
        (
            file(&two(entry("U8", "[4]", 0, 4), entry("U8", "[1]", 5, 6)), 6),
            "\"y\" lies at 5 to 6",
        ),
        (
            file(
                "{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                0,
            ),
            "\"x\" comes twice",
        ),
        (
            file(
                "{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"more\":1}}",
                0,
            ),
            "unknown field",
        ),
        (file("{\"__metadata__\":{\"a\":1}}", 0), "invalid type"),
        (file(&"[".repeat(5000), 0), "header: "),
    ] {
        fs::write(&path, &bytes).unwrap();
        let got = Archive::open(&path).unwrap_err().to_string();
        assert!(
            got.contains(error) && got.contains("bad: safetensors: "),
            "{error}: {got}"
        );
    }
    let cx = context();
    fs::write(
        &path,
        file(
            &two(
                entry("F8_E8M0", "[2]", 0, 2),
                entry("U8", "[1,1,1,1,1,1,1,1,1]", 2, 3),
            ),
            3,
        ),
    )
    .unwrap();
    let file = Archive::open(&path).unwrap();
    for (name, error) in [
        ("x", "x: tensors have no type F8_E8M0"),
        ("y", "has 9 axes, at most 8"),
        ("z", "z: there is no such tensor among 2"),
    ] {
        let got = file.tensor(name, &cx).unwrap_err().to_string();
        assert!(got.contains(error), "{got}");
    }
    let x = Tensor::ones(1, DType::F32, &cx);
    let twice = save(&path, &[("x", &x), ("x", &x)], &[("", ""); 0])
        .unwrap_err()
        .to_string();
    assert!(twice.contains("the name \"x\" comes twice"), "{twice}");
    assert!(save(&path, &[("__metadata__", &x)], &[("", ""); 0]).is_err());
    assert!(
        Archive::open(&path).is_ok(),
        "a refused write leaves the file as it was"
    );
}
