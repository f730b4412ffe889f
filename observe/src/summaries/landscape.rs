//! Loss landscapes: `landscape.json`, as `summary::landscape` of `thalweg-nn` writes it.

use serde::Deserialize;

/// Most points of a side.
const SIDE: usize = 256;

/// The loss in a plane through the weights.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Landscape {
    pub(crate) name: String,
    /// Distances along the first direction.
    pub(crate) x: Vec<f64>,
    /// Distances along the second one.
    pub(crate) y: Vec<f64>,
    /// A row for each `y`; what is no number is null.
    pub(crate) loss: Vec<Vec<Option<f64>>>,
    /// The weights of the training.
    pub(crate) path: Vec<Stop>,
}

/// Weights of a step or epoch, and where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, serde::Serialize)]
pub(crate) struct Stop {
    pub(crate) at: u64,
    pub(crate) x: f64,
    pub(crate) y: f64,
}

#[derive(Deserialize)]
struct File {
    landscapes: Vec<Landscape>,
}

/// The landscapes of a file; what is wrong with it otherwise.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Landscape>, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match file.landscapes.iter().find(|landscape| !landscape.fits()) {
        Some(landscape) => Err(format!(
            "the landscape {:?} is no grid of 2 to {SIDE} points a side",
            landscape.name
        )),
        None => Ok(file.landscapes),
    }
}

impl Landscape {
    fn fits(&self) -> bool {
        let side = |axis: &[f64]| (2..=SIDE).contains(&axis.len()) && axis.is_sorted_by(|a, b| a < b);
        side(&self.x)
            && side(&self.y)
            && self.loss.len() == self.y.len()
            && self.loss.iter().all(|row| row.len() == self.x.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_taken() {
        let of = |loss: &str, x: &str| {
            let text = format!(
                r#"{{"landscapes": [{{"name": "result", "x": {x}, "y": [0, 1], "loss": {loss}, "path": [{{"at": 3, "x": 0, "y": 0.5}}]}}]}}"#
            );
            parse(text.as_bytes())
        };
        let one = of("[[1, 2, null], [4, 5, 6]]", "[0, 1, 2]").unwrap();
        assert_eq!(one[0].loss[0], [Some(1.0), Some(2.0), None]);
        assert_eq!(one[0].path[0].at, 3);
        for (loss, x) in [
            ("[[1, 2], [4, 5]]", "[0, 1, 2]"),
            ("[[1, 2, 3]]", "[0, 1, 2]"),
            ("[[1, 2], [3, 4]]", "[1, 1]"),
            ("[[1], [3]]", "[1]"),
        ] {
            assert!(of(loss, x).unwrap_err().contains("no grid"));
        }
        assert!(parse(b"{").is_err() && parse(b"[]").is_err());
    }
}
