//! Which packets are needed.

use super::trial::Trial;
use super::units::{Unit, needed, only, units};
use std::error::Error;
use thalweg_layers::captured::File;

/// The capture with as few packets as are found.
pub(super) fn packets(file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    let all = units(&file);
    let mut kept = first(&file, all, trial)?;
    for fewer in [last(&kept), needed(&file, &kept)] {
        if fewer.len() < kept.len() && trial.holds(&only(&file, &fewer))? {
            kept = fewer;
        }
    }
    kept = minimal(&file, kept, trial)?;
    let reduced = only(&file, &kept);
    // Nothing was dropped where nothing held.
    Ok(if trial.holds(&reduced)? { reduced } else { file })
}

fn last(units: &[Unit]) -> Vec<Unit> {
    units.last().copied().into_iter().collect()
}

/// The first packets, up to one without which nothing is wrong: by bisection.
fn first(file: &File, all: Vec<Unit>, trial: &mut Trial<'_>) -> Result<Vec<Unit>, Box<dyn Error>> {
    let (mut low, mut high) = (0, all.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if trial.holds(&only(file, &all[..middle]))? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(all[..high].to_vec())
}

/// A list from which no unit can go: delta debugging (Zeller and Hildebrandt, 2002), which drops halves, quarters and so on.
fn minimal(file: &File, mut kept: Vec<Unit>, trial: &mut Trial<'_>) -> Result<Vec<Unit>, Box<dyn Error>> {
    let mut parts = 2;
    while kept.len() > 1 && !trial.is_over() {
        let size = kept.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..kept.len()).step_by(size) {
            let end = kept.len().min(start + size);
            let without: Vec<Unit> = kept[..start].iter().chain(&kept[end..]).copied().collect();
            if !without.is_empty() && trial.holds(&only(file, &without))? {
                smaller = Some(without);
                break;
            }
        }
        match smaller {
            Some(without) => {
                kept = without;
                parts = 2.max(parts - 1);
            }
            None if size == 1 => break,
            None => parts = kept.len().min(parts * 2),
        }
    }
    Ok(kept)
}
