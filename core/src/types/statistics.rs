//! Figures of values.

/// Figures of a tensor's elements. They are computed on the device in f32, in f64 for f64, so that large integers are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of elements.
    pub count: u64,
    /// The least finite element; NaN where there is none.
    pub min: f64,
    /// The greatest finite element; NaN where there is none.
    pub max: f64,
    /// The mean of the finite elements; NaN where there is none.
    pub mean: f64,
    /// The square root of the sum of the squares of the finite elements.
    pub l2: f64,
    /// How many elements are NaN.
    pub nan: u64,
    /// How many elements are infinite.
    pub infinite: u64,
    /// How many elements are 0 or -0.
    pub zeros: u64,
}
