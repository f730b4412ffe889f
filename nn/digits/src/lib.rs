//! 10,000 handwritten digits of the MNIST database, as packed files in the program.
//!
//! `thalweg_nn::digits` unpacks them; that crate has them with its feature `digits`. They are a crate of their own because they
//! have a licence of their own, CC-BY-SA-3.0: whoever distributes a program that contains them names their authors.
#![no_std]
#![forbid(unsafe_code)]

/// 10,000 images of 28 × 28 bytes from 0 to 255: a gzipped file in the IDX format of MNIST.
pub static IMAGES: &[u8] = include_bytes!("../data/digits-images.idx.gz");

/// The digit on each image, a byte from 0 to 9: a gzipped file in the IDX format of MNIST.
pub static LABELS: &[u8] = include_bytes!("../data/digits-labels.idx.gz");

/// The first images are for training, the others for testing.
pub const TRAIN: usize = 8000;
