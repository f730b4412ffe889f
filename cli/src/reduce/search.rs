//! Which units of a file are needed.

use std::error::Error;

/// Asks about files of some units.
pub(super) trait Question<U> {
    /// Whether the file of these units alone still shows what is wrong.
    fn holds(&mut self, units: &[U]) -> Result<bool, Box<dyn Error>>;

    /// The units that the last one needs.
    fn needed(&self, units: &[U]) -> Vec<U>;

    /// Whether no more is asked.
    fn is_over(&self) -> bool;
}

/// As few units as are found, out of all.
pub(super) fn least<U: Copy>(all: Vec<U>, question: &mut impl Question<U>) -> Result<Vec<U>, Box<dyn Error>> {
    let mut kept = first(all, question)?;
    let last: Vec<U> = kept.last().copied().into_iter().collect();
    for fewer in [last, question.needed(&kept)] {
        if fewer.len() < kept.len() && question.holds(&fewer)? {
            kept = fewer;
        }
    }
    minimal(kept, question)
}

/// The first units, up to one without which nothing is wrong: by bisection.
fn first<U: Copy>(mut all: Vec<U>, question: &mut impl Question<U>) -> Result<Vec<U>, Box<dyn Error>> {
    let (mut low, mut high) = (0, all.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if question.holds(&all[..middle])? {
            high = middle;
        } else {
            low = middle;
        }
    }
    all.truncate(high);
    Ok(all)
}

/// A list from which no unit can go: delta debugging (Zeller and Hildebrandt, 2002), which drops halves, quarters and so on.
fn minimal<U: Copy>(mut kept: Vec<U>, question: &mut impl Question<U>) -> Result<Vec<U>, Box<dyn Error>> {
    let mut parts = 2;
    while kept.len() > 1 && !question.is_over() {
        let size = kept.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..kept.len()).step_by(size) {
            let end = kept.len().min(start + size);
            let without: Vec<U> = kept[..start].iter().chain(&kept[end..]).copied().collect();
            if !without.is_empty() && question.holds(&without)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong as long as all of some numbers are there.
    struct Together<'a>(&'a [u32], usize);

    impl Question<u32> for Together<'_> {
        fn holds(&mut self, units: &[u32]) -> Result<bool, Box<dyn Error>> {
            self.1 += 1;
            Ok(self.0.iter().all(|wanted| units.contains(wanted)))
        }

        fn needed(&self, units: &[u32]) -> Vec<u32> {
            units.to_vec()
        }

        fn is_over(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_is_wrong_together_stays_and_all_else_goes() {
        for wanted in [&[321][..], &[0], &[499], &[7, 300, 301], &[0, 250, 499]] {
            let mut question = Together(wanted, 0);
            let kept = least((0..500).collect(), &mut question).unwrap();
            assert_eq!(kept, wanted);
            assert!(question.1 < 120, "{wanted:?}: {} questions", question.1);
        }
    }
}
