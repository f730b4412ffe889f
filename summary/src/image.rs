//! Pictures, in files of PNG.

use crate::error::Error;
use crate::wire::{Fields, Malformed, Message};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// A picture in a format of files, mostly PNG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Pixels from top to bottom.
    pub height: u32,
    /// Pixels from left to right.
    pub width: u32,
    /// Numbers of a pixel: 1 grey, 2 grey and opacity, 3 colours, 4 colours and opacity.
    pub channels: u32,
    /// The file.
    pub encoded: Vec<u8>,
}

/// What a file begins with.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Longest side of a picture.
const LONGEST: u32 = 1 << 16;

impl Image {
    /// A picture of these pixels: rows from the top, pixels from the left, the numbers of a pixel beside each other.
    ///
    /// ```
    /// use thalweg_summary::Image;
    /// let image = Image::png(2, 1, 3, &[255, 0, 0, 0, 0, 255])?;
    /// assert!(image.encoded.starts_with(b"\x89PNG"));
    /// # Ok::<(), thalweg_summary::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of pixels than the sides have; a side of 0 or over 65536; no or over 4 channels.
    pub fn png(width: u32, height: u32, channels: u32, pixels: &[u8]) -> Result<Image, Error> {
        let invalid = |why: &str| {
            let shown = format!("an image of {width}x{height} pixels with {channels} channels");
            Error::Invalid(format!("{shown}: {why}"))
        };
        // Codes of colour types, which PNG counts by bits: palette, colour, opacity.
        let colour = match channels {
            1 => 0,
            2 => 4,
            3 => 2,
            4 => 6,
            _ => return Err(invalid("channels are 1 to 4")),
        };
        if width == 0 || height == 0 || width > LONGEST || height > LONGEST {
            return Err(invalid("sides are 1 to 65536 pixels"));
        }
        let row = width as usize * channels as usize;
        if row.checked_mul(height as usize) != Some(pixels.len()) {
            return Err(invalid(&format!("{} bytes were given", pixels.len())));
        }
        let mut rows = ZlibEncoder::new(Vec::new(), Compression::fast());
        let written = pixels.chunks_exact(row).try_for_each(|row| {
            rows.write_all(&[0])?; // no filter
            rows.write_all(row)
        });
        let data = written.and_then(|()| rows.finish());
        let data = data.map_err(|error| invalid(&error.to_string()))?;
        let mut head = Vec::new();
        head.extend(width.to_be_bytes());
        head.extend(height.to_be_bytes());
        // Bits of a number, kind, compression, filter, interlace.
        head.extend([8, colour, 0, 0, 0]);
        let encoded = [
            SIGNATURE,
            &chunk(*b"IHDR", &head),
            &chunk(*b"IDAT", &data),
            &chunk(*b"IEND", &[]),
        ];
        Ok(Image {
            height,
            width,
            channels,
            encoded: encoded.concat(),
        })
    }

    pub(crate) fn encode(&self) -> Message {
        Message::new()
            .int(1, i64::from(self.height))
            .int(2, i64::from(self.width))
            .int(3, i64::from(self.channels))
            .bytes(4, &self.encoded)
    }

    /// The first picture of a tensor of texts, as newer writers note pictures: width and height in digits, then the files.
    pub(crate) fn of_texts(texts: &[&[u8]]) -> Option<Image> {
        let side = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
        let [width, height, file, ..] = texts else {
            return None;
        };
        Some(Image {
            height: side(height)?,
            width: side(width)?,
            // The file says it, and nobody asks.
            channels: 0,
            encoded: file.to_vec(),
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Image, Malformed> {
        let mut image = Image::default();
        let side = |value: i64| u32::try_from(value).map_err(|_| "an image has a negative side");
        for field in Fields::new(bytes) {
            match field? {
                (1, height) => image.height = side(height.int()?)?,
                (2, width) => image.width = side(width.int()?)?,
                (3, channels) => image.channels = side(channels.int()?)?,
                (4, encoded) => image.encoded = encoded.bytes()?.to_vec(),
                _ => {}
            }
        }
        Ok(image)
    }
}

/// A part of a file: length, kind, content, checksum of kind and content.
fn chunk(kind: [u8; 4], content: &[u8]) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&kind);
    sum.update(content);
    let length = (content.len() as u32).to_be_bytes();
    [&length, &kind, content, &sum.finalize().to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    #[test]
    fn a_file_has_its_pixels() {
        let pixels: Vec<u8> = (0..60).collect();
        let image = Image::png(5, 4, 3, &pixels).unwrap();
        let file = &image.encoded;
        assert_eq!(&file[..8], SIGNATURE);
        assert_eq!(&file[12..29], b"IHDR\0\0\0\x05\0\0\0\x04\x08\x02\0\0\0");
        // The checksum that any tool shows for an empty IEND.
        assert_eq!(file[file.len() - 12..], *b"\0\0\0\0IEND\xae\x42\x60\x82");
        let length = u32::from_be_bytes(*file[33..].first_chunk().unwrap()) as usize;
        let mut rows = Vec::new();
        ZlibDecoder::new(&file[41..41 + length])
            .read_to_end(&mut rows)
            .unwrap();
        let wanted: Vec<u8> = pixels.chunks(15).flat_map(|row| [&[0], row].concat()).collect();
        assert_eq!(rows, wanted);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for (width, height, channels, bytes) in [
            (0, 1, 1, 0),
            (1, 1, 5, 5),
            (1, 1, 0, 0),
            (2, 2, 3, 11),
            (70000, 1, 1, 70000),
        ] {
            let error = Image::png(width, height, channels, &vec![0; bytes])
                .unwrap_err()
                .to_string();
            assert!(error.starts_with("summary: an image of "), "{error}");
        }
    }
}
