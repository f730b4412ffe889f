//! The handwritten digits of the crate `thalweg-digits`, with the feature `digits`. Their licence is CC-BY-SA-3.0, not that of
//! this crate.

use crate::data::{HostTensor, Rows, Samples, read_idx};
use std::io::Read;
use thalweg::Result;
use thalweg_digits::{IMAGES, LABELS, TRAIN};

fn unpack(packed: &[u8]) -> Result<HostTensor> {
    let mut bytes = Vec::new();
    let read = flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes);
    read.map_err(|error| {
        thalweg::Error::backend(
            thalweg::hal::Status::Internal,
            format!("the digits cannot be unpacked: {error}"),
        )
    })?;
    read_idx(&bytes)
}

/// 8,000 digits for training and 2,000 for testing: images `[1, 28, 28]` f32 from 0 to 1, and their digit as i64.
///
/// ```
/// use thalweg_nn::data::Dataset;
/// let (train, test) = thalweg_nn::digits::load()?;
/// assert_eq!((train.len(), test.len()), (8000, 2000));
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Errors
/// The data in the program is damaged.
pub fn load() -> Result<(Samples, Samples)> {
    let (images, labels) = (
        unpack(IMAGES)?.data.to_le_bytes(),
        unpack(LABELS)?.data.to_le_bytes(),
    );
    let x: Vec<f32> = images.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let y: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    Ok(Samples::new(Rows::new(x, &[1, 28, 28])?, Rows::new(y, &[])?)?.split(TRAIN))
}

/// An image `[28, 28]` from 0 to 1 as text, two rows a line.
pub fn draw(image: &[f32]) -> String {
    let at = |row: usize, column: usize| image.get(row * 28 + column).is_some_and(|&value| value > 0.4);
    let mut text = String::new();
    for row in (0..28).step_by(2) {
        let line: String = (0..28)
            .map(|column| match (at(row, column), at(row + 1, column)) {
                (false, false) => ' ',
                (true, false) => '▀',
                (false, true) => '▄',
                (true, true) => '█',
            })
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Column, Dataset};

    #[test]
    fn the_digits_are_those_that_were_packed() {
        let (train, test) = load().unwrap();
        let batch = train.collect(&(0..8000).collect::<Vec<_>>()).unwrap();
        let Column::I64(labels) = batch.y.data else {
            panic!("{:?}", batch.y.data.dtype())
        };
        let counts: Vec<usize> = (0..10)
            .map(|digit| labels.iter().filter(|&&label| label == digit).count())
            .collect();
        assert_eq!(counts.iter().sum::<usize>(), 8000);
        assert!(counts.iter().all(|&count| count > 650), "{counts:?}");
        assert_eq!(test.collect(&[1999]).unwrap().x.shape, [1, 1, 28, 28]);
    }

    #[test]
    fn a_drawing_has_its_strokes() {
        let mut image = [0.0; 784];
        (image[0], image[28], image[29]) = (1.0, 1.0, 1.0);
        assert!(draw(&image).starts_with("█▄\n\n"));
    }
}
