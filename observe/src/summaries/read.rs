//! The summaries of a run, as far as there is room for them.

use super::film::{Film, Frame};
use super::find::Folder;
use super::landscape::{self, Landscape};
use super::scalar::{self, Point};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use thalweg_summary::{Content, Data, Element, Event, Histogram, Image, Reader, Value};

/// Most points of a tag, and of all runs.
const POINTS: usize = 10_000;
const ALL_POINTS: usize = 3_000_000;
/// Points of a tag, however many tags there are.
const LEAST: usize = 200;
/// Histograms of a tag, their buckets, and bytes of all runs.
const HISTOGRAMS: usize = 120;
const BUCKETS: usize = 256;
const HISTOGRAM_ROOM: usize = 64 << 20;
/// Images of a tag, and bytes of all runs.
const IMAGES: usize = 40;
const IMAGE_ROOM: usize = 32 << 20;
/// Longest `lineage.json` and `landscape.json`.
const JSON: u64 = 64 << 20;

/// What may be kept of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    points: usize,
    histograms: usize,
    images: usize,
}

impl Budget {
    /// The share of one of so many runs.
    pub(crate) fn of(runs: usize) -> Budget {
        let runs = runs.max(1);
        Budget {
            points: ALL_POINTS / runs,
            histograms: HISTOGRAM_ROOM / runs,
            images: IMAGE_ROOM / runs,
        }
    }
}

/// What a run noted.
#[derive(Clone, Debug)]
pub(crate) struct Summaries {
    /// All points of each tag.
    pub(crate) scalars: BTreeMap<String, Vec<Point>>,
    pub(crate) histograms: Film<Histogram>,
    pub(crate) images: Film<Image>,
    pub(crate) lineage: Option<serde_json::Value>,
    pub(crate) landscapes: Vec<Landscape>,
    /// What cannot be shown, a line each.
    pub(crate) notes: Vec<String>,
    points: usize,
}

impl Summaries {
    /// Reads a folder. What cannot be read becomes a note.
    pub(crate) fn read(folder: &Folder, budget: Budget) -> Summaries {
        let mut all = Summaries {
            scalars: BTreeMap::new(),
            histograms: Film::new(HISTOGRAMS, budget.histograms),
            images: Film::new(IMAGES, budget.images),
            lineage: None,
            landscapes: Vec::new(),
            notes: folder.notes.clone(),
            points: budget.points,
        };
        for path in &folder.events {
            let read = Reader::open(path).and_then(|reader| {
                for event in reader {
                    all.add(event?);
                }
                Ok(())
            });
            if let Err(error) = read {
                all.notes.push(error.to_string());
            }
        }
        if let Some(path) = &folder.lineage {
            match json(path, |bytes| {
                serde_json::from_slice(bytes).map_err(|error| error.to_string())
            }) {
                Ok(value) => all.lineage = Some(value),
                Err(error) => all.notes.push(error.to_string()),
            }
        }
        if let Some(path) = &folder.landscape {
            match json(path, landscape::parse) {
                Ok(landscapes) => all.landscapes = landscapes,
                Err(error) => all.notes.push(error.to_string()),
            }
        }
        all
    }

    /// The points of a tag that are shown.
    pub(crate) fn shown(&self, points: &[Point]) -> Vec<Point> {
        let each = self.points / self.scalars.len().max(1);
        scalar::thinned(points, each.clamp(LEAST, POINTS))
    }

    fn add(&mut self, event: Event) {
        let Content::Values(values) = event.content else {
            return;
        };
        for value in values {
            self.value(event.step, event.wall_time, value);
        }
    }

    fn value(&mut self, step: i64, time: f64, value: Value) {
        if let Some(number) = number(&value) {
            let point = Point {
                step,
                time,
                value: number,
            };
            scalar::push(self.scalars.entry(value.tag).or_default(), point);
            return;
        }
        match value.data {
            Data::Histogram(histogram) => {
                let value_of = narrowed(histogram);
                let frame = Frame {
                    step,
                    time,
                    bytes: 16 * value_of.limits.len(),
                    value: value_of,
                };
                self.histograms.push(&value.tag, frame);
            }
            Data::Image(image) => {
                let frame = Frame {
                    step,
                    time,
                    bytes: image.encoded.len(),
                    value: image,
                };
                self.images.push(&value.tag, frame);
            }
            Data::Scalar(_) | Data::Tensor(_) | Data::Other => {}
        }
    }
}

/// A number, in either form that writers use.
fn number(value: &Value) -> Option<f64> {
    match &value.data {
        Data::Scalar(number) => Some(f64::from(*number)),
        Data::Tensor(array)
            if value
                .plugin
                .as_ref()
                .is_some_and(|plugin| plugin.name == "scalars") =>
        {
            match array.element {
                Element::F32 => Some(f64::from(f32::from_le_bytes(array.bytes.first_chunk().copied()?))),
                Element::F64 => Some(f64::from_le_bytes(array.bytes.first_chunk().copied()?)),
                Element::I32
                | Element::U8
                | Element::I16
                | Element::I8
                | Element::I64
                | Element::Bool
                | Element::Bf16
                | Element::U16
                | Element::F16
                | Element::U32
                | Element::U64 => None,
            }
        }
        Data::Tensor(_) | Data::Histogram(_) | Data::Image(_) | Data::Other => None,
    }
}

/// The same with fewer buckets, where it has too many, and without limits that have no bucket.
fn narrowed(mut histogram: Histogram) -> Histogram {
    let count = histogram.limits.len().min(histogram.buckets.len());
    let each = count.div_ceil(BUCKETS).max(1);
    let parts = |values: &[f64]| {
        values[..count]
            .chunks(each)
            .map(<[f64]>::to_vec)
            .collect::<Vec<_>>()
    };
    let last = |part: Vec<f64>| part.last().copied().unwrap_or_default();
    let sum = |part: Vec<f64>| part.iter().sum();
    let limits = parts(&histogram.limits).into_iter().map(last).collect();
    histogram.buckets = parts(&histogram.buckets).into_iter().map(sum).collect();
    histogram.limits = limits;
    histogram
}

/// What a file of JSON says.
fn json<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<T> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::reading(path))?;
    file.take(JSON + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::reading(path))?;
    let format = |why| Error::Format {
        path: path.to_owned(),
        why,
    };
    if bytes.len() as u64 > JSON {
        return Err(format("it is longer than 64 MiB".to_owned()));
    }
    parse(&bytes).map_err(format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summaries::find::folders;
    use std::fs;
    use thalweg_summary::{Array, Plugin, Writer};

    fn read(folder: &Path) -> Summaries {
        Summaries::read(&folders(folder).unwrap()[0], Budget::of(1))
    }

    #[test]
    fn values_come_by_tag_and_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), None).unwrap();
        let image = Image::png(2, 1, 1, &[0, 255]).unwrap();
        for step in 1..=300 {
            let modern = Value {
                plugin: Some(Plugin {
                    name: "scalars".into(),
                    content: Vec::new(),
                }),
                ..Value::new("modern", Data::Tensor(Array::scalar(step as f32)))
            };
            let values = vec![
                Value::new("loss", Data::Scalar(1.0 / step as f32)),
                modern,
                Value::new("t", Data::Tensor(Array::scalar(0.0))),
                Value::new("w", Data::Histogram(Histogram::of((0..500).map(f64::from)))),
                Value::new("x", Data::Image(image.clone())),
            ];
            writer.write(&Event::now(step, values)).unwrap();
        }
        fs::write(folder.path().join("lineage.json"), r#"{"train": {"epochs": 3}}"#).unwrap();
        let all = read(folder.path());
        assert_eq!(all.scalars.keys().collect::<Vec<_>>(), ["loss", "modern"]);
        assert_eq!(all.scalars["modern"].last().unwrap().value, 300.0);
        assert_eq!(all.shown(&all.scalars["loss"]).len(), 300);
        assert_eq!(all.histograms.tags["w"].frames.len(), HISTOGRAMS);
        assert_eq!(all.images.tags["x"].frames.len(), IMAGES);
        assert_eq!(all.lineage.unwrap()["train"]["epochs"], 3);
        assert!(all.notes.is_empty());
    }

    #[test]
    fn what_is_broken_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        file(
            "events.out.tfevents.1",
            b"this is no event file, and long enough to see",
        );
        file("lineage.json", b"{");
        file("landscape.json", b"{\"landscapes\": 3}");
        let all = read(folder.path());
        assert_eq!(all.notes.len(), 3, "{:?}", all.notes);
        for (note, words) in all
            .notes
            .iter()
            .zip(["byte 0: the checksum", "EOF", "landscape.json"])
        {
            assert!(note.contains(words), "{note}");
        }
    }

    #[test]
    fn many_buckets_become_fewer() {
        let histogram = Histogram {
            limits: (1..=1000).map(f64::from).collect(),
            buckets: vec![1.0; 1001],
            ..Histogram::default()
        };
        let narrow = narrowed(histogram);
        assert_eq!(narrow.limits.len(), 250);
        assert_eq!(
            (narrow.limits[0], narrow.limits[249], narrow.buckets[0]),
            (4.0, 1000.0, 4.0)
        );
        assert_eq!(narrow.buckets.iter().sum::<f64>(), 1000.0);
    }
}
