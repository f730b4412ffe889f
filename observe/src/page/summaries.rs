//! Summaries in the page: columns of numbers, buckets and pictures.

use crate::page::columns::{Heap, Place};
use crate::summaries::{Folder, Frame, Landscape, Point, Row, Stop, Summaries};
use serde::Serialize;
use thalweg_summary::{Histogram, Image};

/// What the page knows of the summaries of a run. The columns lie in the heap.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SummaryIndex {
    /// Name for people.
    pub(crate) name: String,
    folder: String,
    notes: Vec<String>,
    scalars: Vec<Scalars>,
    histograms: Vec<Histograms>,
    images: Vec<Images>,
    lineage: Option<serde_json::Value>,
    landscapes: Vec<Plane>,
}

#[derive(Clone, Debug, Serialize)]
struct Scalars {
    tag: String,
    /// Points before they were thinned.
    seen: usize,
    steps: Place,
    /// Seconds since 1970.
    times: Place,
    values: Place,
}

#[derive(Clone, Debug, Serialize)]
struct Histograms {
    tag: String,
    /// Histograms before they were thinned.
    seen: usize,
    frames: Vec<Counted>,
}

#[derive(Clone, Debug, Serialize)]
struct Counted {
    step: i64,
    time: f64,
    min: f64,
    max: f64,
    count: f64,
    mean: f64,
    /// The upper end of each bucket.
    limits: Place,
    buckets: Place,
}

#[derive(Clone, Debug, Serialize)]
struct Images {
    tag: String,
    /// Images before they were thinned.
    seen: usize,
    frames: Vec<Picture>,
}

#[derive(Clone, Debug, Serialize)]
struct Picture {
    step: i64,
    time: f64,
    width: u32,
    height: u32,
    /// As a browser names it: `image/png`.
    kind: &'static str,
    file: Place,
}

#[derive(Clone, Debug, Serialize)]
struct Plane {
    name: String,
    x: Vec<f64>,
    y: Vec<f64>,
    /// A row for each `y`.
    loss: Place,
    path: Vec<Stop>,
}

impl SummaryIndex {
    pub(crate) fn new(name: String, folder: &Folder, all: &Summaries, heap: &mut Heap) -> SummaryIndex {
        let mut notes = all.notes.clone();
        let mut images = Vec::new();
        for (tag, row) in &all.images.tags {
            let (known, why) = pictures(tag, row, heap);
            notes.extend(why.map(|why| format!("{}: images of {tag} {why}", folder.path.display())));
            images.push(known);
        }
        SummaryIndex {
            name,
            folder: folder.path.display().to_string(),
            notes,
            scalars: (all.scalars.iter())
                .map(|(tag, points)| scalars(tag, points.len(), &all.shown(points), heap))
                .collect(),
            histograms: (all.histograms.tags.iter())
                .map(|(tag, row)| Histograms {
                    tag: tag.clone(),
                    seen: row.seen,
                    frames: row.frames.iter().map(|frame| counted(frame, heap)).collect(),
                })
                .collect(),
            images,
            lineage: all.lineage.clone(),
            landscapes: all.landscapes.iter().map(|one| plane(one, heap)).collect(),
        }
    }
}

fn scalars(tag: &str, seen: usize, points: &[Point], heap: &mut Heap) -> Scalars {
    Scalars {
        tag: tag.to_owned(),
        seen,
        steps: heap.floats(points.iter().map(|point| point.step as f64)),
        times: heap.floats(points.iter().map(|point| point.time)),
        values: heap.floats(points.iter().map(|point| point.value)),
    }
}

fn counted(frame: &Frame<Histogram>, heap: &mut Heap) -> Counted {
    let histogram = &frame.value;
    Counted {
        step: frame.step,
        time: frame.time,
        min: histogram.min,
        max: histogram.max,
        count: histogram.count,
        mean: histogram.sum / histogram.count,
        limits: heap.floats(histogram.limits.iter().copied()),
        buckets: heap.floats(histogram.buckets.iter().copied()),
    }
}

/// The pictures of a tag, and why some of them are not shown.
fn pictures(tag: &str, row: &Row<Image>, heap: &mut Heap) -> (Images, Option<&'static str>) {
    let frames: Vec<Picture> = (row.frames.iter())
        .filter_map(|frame| picture(frame, heap))
        .collect();
    let why = match (row.frames.len(), frames.len()) {
        (0, _) => Some("have no room in the page"),
        (all, shown) if shown < all => Some("are neither PNG, JPEG nor GIF"),
        (_, _) => None,
    };
    let images = Images {
        tag: tag.to_owned(),
        seen: row.seen,
        frames,
    };
    (images, why)
}

/// A picture that a browser draws and that holds no program.
fn picture(frame: &Frame<Image>, heap: &mut Heap) -> Option<Picture> {
    let file = &frame.value.encoded;
    let kinds: [(&[u8], &str); 3] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
    ];
    let (_, kind) = kinds.into_iter().find(|(begin, _)| file.starts_with(begin))?;
    Some(Picture {
        step: frame.step,
        time: frame.time,
        width: frame.value.width,
        height: frame.value.height,
        kind,
        file: heap.put(file),
    })
}

fn plane(landscape: &Landscape, heap: &mut Heap) -> Plane {
    let loss = landscape.loss.iter().flatten();
    Plane {
        name: landscape.name.clone(),
        x: landscape.x.clone(),
        y: landscape.y.clone(),
        loss: heap.floats(loss.map(|loss| loss.unwrap_or(f64::NAN))),
        path: landscape.path.clone(),
    }
}
