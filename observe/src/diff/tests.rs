//! Dumps of a chain of ops, as they are and with bits that were changed.

use super::{Diff, Kind, diff};
use serde_json::{Value, json};
use std::path::Path;

const OPS: usize = 20;
const ELEMENTS: usize = 6;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}

/// The values of a chain of ops, each from the one before it. In the op `fault` a bit of an element is another one.
fn chain(fault: Option<(usize, usize, u32)>) -> Vec<Vec<f32>> {
    let mut value: Vec<f32> = (0..ELEMENTS).map(|i| 0.3 + i as f32).collect();
    let mut values = Vec::new();
    for op in 0..OPS {
        value = value.iter().map(|x| x * 0.9 + 0.1).collect();
        if let Some((at, element, bit)) = fault
            && at == op
        {
            value[element] = f32::from_bits(value[element].to_bits() ^ 1 << bit);
        }
        values.push(value.clone());
    }
    values
}

/// The folder of one iteration.
fn write(folder: &Path, device: &str, values: &[Vec<f32>], npy: bool, change: impl Fn(usize, &mut Value)) {
    std::fs::create_dir_all(folder).unwrap();
    let entry = |(at, value): (usize, &Vec<f32>)| {
        let mut bytes = if npy {
            b"\x93NUMPY of any header\n".to_vec()
        } else {
            Vec::new()
        };
        bytes.extend(value.iter().flat_map(|x| x.to_le_bytes()));
        let file = format!("op{at}");
        std::fs::write(folder.join(&file), &bytes).unwrap();
        let mut entry = json!({
            "name": format!("Default/scale-op{at}"), "line": format!("src/net.rs:{at}"), "io": "output", "slot": 0,
            "dtype": "f32", "shape": [2, ELEMENTS / 2], "file": file,
        });
        change(at, &mut entry);
        entry
    };
    let values: Vec<Value> = values.iter().enumerate().map(entry).collect();
    let manifest = json!({"format": 1, "iteration": 3, "device": device, "values": values});
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

fn compared(device: &str, values: &[Vec<f32>]) -> Diff {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (
        folder.path().join("a"),
        folder.path().join("b/net/device_0/iteration_3"),
    );
    write(&a, "cpu:0", &chain(None), true, |_, _| ());
    write(&b, device, values, false, |_, _| ());
    diff(&a, &folder.path().join("b")).unwrap()
}

#[test]
fn a_planted_fault_is_named_each_time() {
    let mut random = Random(7);
    for round in 0..100 {
        let fault = (random.below(OPS), random.below(ELEMENTS), random.below(32) as u32);
        let found = compared("cpu:0", &chain(Some(fault)));
        let first = &found.differences[0];
        assert_eq!(
            (first.name.as_str(), first.iteration),
            (format!("Default/scale-op{}", fault.0).as_str(), 3),
            "{round}"
        );
        assert_eq!((found.equal, found.compared, found.exact), (fault.0, OPS, true));
        let Kind::Elements(wrong) = &first.kind else {
            panic!("{first}")
        };
        assert_eq!(
            (wrong.index.clone(), wrong.count),
            (vec![fault.1 / 3, fault.1 % 3], 1)
        );
        assert!(
            found.to_string().contains(&format!("(src/net.rs:{})", fault.0)),
            "{found}"
        );
    }
}

#[test]
fn two_devices_may_differ_by_roundings() {
    let mut values = chain(None);
    values
        .iter_mut()
        .flatten()
        .for_each(|x| *x = f32::from_bits(x.to_bits() ^ 1));
    let found = compared("cuda:0", &values);
    assert!(found.is_equal() && !found.exact, "{found}");
    assert_eq!(
        found.to_string(),
        "equal: 20 values, as far as dtypes allow, on cpu:0 and cuda:0\n"
    );
    values[12][4] = f32::NAN;
    values[15][1] += 1.0;
    let found = compared("cuda:0", &values);
    let text = found.to_string();
    assert!(text.starts_with("equal for 12 values, "), "{text}");
    assert!(text.contains("first difference in Default/scale-op12 (src/net.rs:12), output 0, f32[2,3], iteration 3: inf at [1, 1], "), "{text}");
    assert!(
        text.contains("onward 1 of 7 values differ\n  Default/scale-op15, output 0: "),
        "{text}"
    );
    // What is no number in both is equal.
    let nan = chain(None)
        .into_iter()
        .map(|_| vec![f32::NAN; ELEMENTS])
        .collect::<Vec<_>>();
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    write(&a, "cpu:0", &nan, true, |_, _| ());
    write(&b, "cuda:0", &nan, true, |_, _| ());
    assert!(diff(&a, &b).unwrap().is_equal());
}

#[test]
fn dumps_without_elements_are_compared_by_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let sums = |wrong: Option<usize>| {
        move |at: usize, entry: &mut Value| {
            entry["file"] = Value::Null;
            entry["statistics"] = json!({"hash": format!("{}", wrong == Some(at)), "min": 1.0, "max": if wrong == Some(at) { 2.5 } else { 2.0 }});
        }
    };
    write(&a, "cpu:0", &chain(None), true, sums(None));
    write(&b, "cpu:0", &chain(None), true, sums(Some(4)));
    let found = diff(&a, &b).unwrap();
    assert!(
        matches!(found.differences[0].kind, Kind::Sums) && found.equal == 4,
        "{found}"
    );
    write(&b, "cuda:0", &chain(None), true, sums(Some(4)));
    let found = diff(&a, &b).unwrap();
    assert!(
        found
            .to_string()
            .contains("scale-op4 (src/net.rs:4), output 0, f32[2,3], iteration 3: max 2 and 2.5"),
        "{found}"
    );
}

#[test]
fn what_does_not_fit_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    write(&a, "cpu:0", &chain(None), true, |_, _| ());
    write(&b, "cpu:0", &chain(None), true, |at, entry| match at {
        3 => entry["name"] = json!("Default/other-op3"),
        7 => entry["shape"] = json!([ELEMENTS]),
        _ => {}
    });
    let text = diff(&a, &b).unwrap().to_string();
    assert!(text.contains("f32[2,3] and f32[6]"), "{text}");
    assert!(
        text.contains("only in the first: 1 values, such as Default/scale-op3\n"),
        "{text}"
    );
    assert!(
        text.contains("only in the second: 1 values, such as Default/other-op3\n"),
        "{text}"
    );
    let error = |path: &Path| diff(&a, path).unwrap_err().to_string();
    assert!(
        error(&folder.path().join("c"))
            .ends_with("there is no such folder; name the one that the profile was written to")
    );
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(error(&folder.path().join("empty")).contains("no manifest.json here"));
    for (change, wanted) in [
        (
            json!({"file": "../a/op0"}),
            "a manifest names files of its own folder alone",
        ),
        (json!({"shape": [1_u64 << 60, 1 << 30]}), "f32[2,3] and f32["),
        (json!({"shape": [2, 300]}), "f32[2,3] and f32["),
    ] {
        let merged = change.as_object().unwrap().clone();
        write(&b, "cpu:0", &chain(Some((0, 0, 3))), true, |at, entry| {
            if at == 0 {
                entry.as_object_mut().unwrap().append(&mut merged.clone());
            }
        });
        let said = diff(&a, &b).map_or_else(|error| error.to_string(), |diff| diff.to_string());
        assert!(said.contains(wanted), "{said}");
    }
    std::fs::write(b.join("manifest.json"), "{\"format\": 2, \"values\": []}").unwrap();
    assert!(error(&b).contains("a manifest of version 2; this program reads version 1"));
}
