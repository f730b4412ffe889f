//! Tensors as values of event files.

use super::error::SummaryError;
use super::noted::{Entry, Kind};
use crate::data::Column;
use crate::error::Result;
use thalweg::{DType, Tensor};
use thalweg_summary::{Array, Data, Element, Histogram, Image, Value};

/// Images that are shown of a batch, and how many of them in a row.
const IMAGES: usize = 16;
const COLUMNS: usize = 4;

/// A noted value in its form. Waits for the device.
pub(crate) fn of(entry: &Entry) -> Result<Value> {
    let refused = |why: String| SummaryError::Value {
        tag: entry.tag.to_string(),
        why,
    };
    let data = match entry.kind {
        Kind::Scalar => {
            let shape = entry.value.shape()?;
            if shape.elements() != 1 {
                let why = format!("a scalar of shape {shape}; reduce it to one element, or note a histogram");
                return Err(refused(why).into());
            }
            Data::Scalar(entry.value.to_scalar()? as f32)
        }
        Kind::Histogram => Data::Histogram(Histogram::of(Column::of(&entry.value)?.to_f64())),
        Kind::Tensor => Data::Tensor(array(&entry.value)?),
        Kind::Image => match picture(&entry.value)? {
            Some(image) => Data::Image(image),
            None => {
                let shape = entry.value.shape()?;
                let why = format!(
                    "an image of shape {shape}; it takes [height, width], [channels, height, width] or \
                     [images, channels, height, width] with 1, 3 or 4 channels"
                );
                return Err(refused(why).into());
            }
        },
    };
    Ok(Value::new(&*entry.tag, data))
}

/// The mean of all elements as a number. Waits for the device.
pub(crate) fn mean(x: &Tensor) -> Result<f32> {
    let values = Column::of(x)?.to_f64();
    Ok((values.iter().sum::<f64>() / values.len() as f64) as f32)
}

fn array(x: &Tensor) -> Result<Array> {
    let (element, wide) = match x.dtype()? {
        DType::F64 => (Element::F64, x.clone()),
        DType::F32 => (Element::F32, x.clone()),
        DType::F16 => (Element::F16, x.clone()),
        DType::BF16 => (Element::Bf16, x.clone()),
        // TensorBoard knows no floats of eight bits.
        DType::F8E4M3 | DType::F8E5M2 => (Element::F32, x.cast(DType::F32)),
        DType::I64 => (Element::I64, x.clone()),
        DType::I32 => (Element::I32, x.clone()),
        DType::I16 => (Element::I16, x.clone()),
        DType::I8 => (Element::I8, x.clone()),
        DType::U64 => (Element::U64, x.clone()),
        DType::U32 => (Element::U32, x.clone()),
        DType::U16 => (Element::U16, x.clone()),
        DType::U8 => (Element::U8, x.clone()),
        DType::Bool => (Element::Bool, x.clone()),
    };
    Ok(Array {
        element,
        shape: x.shape()?.iter().map(|&extent| extent as u64).collect(),
        bytes: Column::of(&wide)?.to_le_bytes(),
    })
}

/// Images, channels, height and width of what can be shown.
fn extents(shape: &[usize]) -> Option<[usize; 4]> {
    let extents = match *shape {
        [height, width] => [1, 1, height, width],
        [channels, height, width] => [1, channels, height, width],
        [images, channels, height, width] => [images, channels, height, width],
        _ => return None,
    };
    let fits = matches!(extents[1], 1 | 3 | 4) && extents.iter().all(|&extent| extent > 0);
    fits.then_some(extents)
}

/// Whether a batch has images, `[images, channels, height, width]`.
pub(crate) fn has_images(x: &Tensor) -> Result<bool> {
    let shape = x.shape()?;
    Ok(shape.len() == 4 && extents(&shape).is_some())
}

/// The first images side by side; `None` for what is none. Waits for the device.
fn picture(x: &Tensor) -> Result<Option<Image>> {
    let shape = x.shape()?;
    let Some([images, channels, height, width]) = extents(&shape) else {
        return Ok(None);
    };
    let count = images.min(IMAGES);
    let first = match shape.len() {
        4 => x.narrow(0, 0, count),
        _ => x.clone(),
    };
    let bytes = bytes_of(&Column::of(&first)?);
    let columns = count.min(COLUMNS);
    let (wide, high) = (columns * width, count.div_ceil(columns) * height);
    let mut pixels = vec![0; wide * high * channels];
    for image in 0..count {
        let (top, left) = (image / columns * height, image % columns * width);
        for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
            for channel in 0..channels {
                let from = ((image * channels + channel) * height + row) * width + column;
                pixels[((top + row) * wide + left + column) * channels + channel] = bytes[from];
            }
        }
    }
    let image = Image::png(wide as u32, high as u32, channels as u32, &pixels);
    Ok(Some(image.map_err(SummaryError::File)?))
}

/// Values from 0 to 255.
fn bytes_of(values: &Column) -> Vec<u8> {
    if let Column::U8(bytes) = values {
        return bytes.clone();
    }
    let values = values.to_f64();
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (min, max) = (
        finite().fold(f64::INFINITY, f64::min),
        finite().fold(f64::NEG_INFINITY, f64::max),
    );
    let (min, max) = match min >= 0.0 && max <= 1.0 {
        true => (0.0, 1.0),
        false => (min, max),
    };
    let width = if max > min { max - min } else { 1.0 };
    // A cast takes NaN to 0, and what lies outside to the nearer end.
    (values.iter())
        .map(|value| ((value - min) / width * 255.0).round() as u8)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_scaled_to_bytes() {
        let bytes = |values: &[f32]| bytes_of(&values.to_vec().into());
        assert_eq!(bytes(&[0.0, 0.5, 1.0, f32::NAN]), [0, 128, 255, 0]);
        assert_eq!(bytes(&[-1.0, 0.0, 3.0, f32::INFINITY]), [0, 64, 255, 255]);
        assert_eq!(bytes(&[0.25, 0.25]), [64, 64]);
        assert_eq!(bytes_of(&vec![7_u8, 255].into()), [7, 255]);
        assert_eq!(bytes(&[5.0, 5.0]), [0, 0]);
    }

    #[test]
    fn shapes_of_images() {
        assert_eq!(extents(&[2, 5]), Some([1, 1, 2, 5]));
        assert_eq!(extents(&[3, 2, 5]), Some([1, 3, 2, 5]));
        assert_eq!(extents(&[7, 4, 2, 5]), Some([7, 4, 2, 5]));
        for shape in [&[4][..], &[2, 2, 5], &[0, 1, 2, 5], &[1, 1, 1, 1, 1]] {
            assert_eq!(extents(shape), None);
        }
    }
}
