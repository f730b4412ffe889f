//! Numbers for the spatial axes of convolutions and pools.

use crate::tensor::failure::Refusal;

/// Most spatial axes.
pub(crate) const MAX_SPATIAL: usize = 3;

/// Largest number for a spatial axis. Sums and products of such numbers, and of an extent with them, fit 64 bits.
const LARGEST: usize = 1 << 31;

/// One number for every spatial axis, or one for each: `2`, `[2, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerAxis {
    numbers: [usize; MAX_SPATIAL],
    // 0 for one that holds for every axis.
    given: u8,
}

impl From<usize> for PerAxis {
    fn from(number: usize) -> PerAxis {
        PerAxis {
            numbers: [number; MAX_SPATIAL],
            given: 0,
        }
    }
}

macro_rules! arrays {
    ($($count:literal)*) => {$(
        impl From<[usize; $count]> for PerAxis {
            fn from(given: [usize; $count]) -> PerAxis {
                let mut numbers = [0; MAX_SPATIAL];
                numbers[..$count].copy_from_slice(&given);
                PerAxis { numbers, given: $count }
            }
        }

        impl From<[usize; $count]> for Padding {
            fn from(given: [usize; $count]) -> Padding {
                Padding::Sides(given.into(), given.into())
            }
        }

        impl From<[(usize, usize); $count]> for Padding {
            fn from(given: [(usize, usize); $count]) -> Padding {
                Padding::Sides(given.map(|side| side.0).into(), given.map(|side| side.1).into())
            }
        }
    )*};
}

arrays!(1 2 3);

impl PerAxis {
    /// The numbers for `axes` spatial axes, 0 behind them.
    pub(crate) fn of(self, axes: usize, what: &str) -> Result<[usize; MAX_SPATIAL], Refusal> {
        if self.given != 0 && usize::from(self.given) != axes {
            return Err(Refusal::new(format!(
                "{what} {:?} for {axes} spatial axes",
                &self.numbers[..usize::from(self.given)]
            ))
            .help("give one number, or one for each spatial axis"));
        }
        let mut numbers = [0; MAX_SPATIAL];
        numbers[..axes].copy_from_slice(&self.numbers[..axes]);
        if let Some(number) = numbers.iter().find(|&&number| number > LARGEST) {
            return Err(Refusal::new(format!("{what} {number}: it is at most {LARGEST}")));
        }
        Ok(numbers)
    }

    /// As [`PerAxis::of`], for numbers that must not be 0.
    pub(crate) fn positive(self, axes: usize, what: &str) -> Result<[usize; MAX_SPATIAL], Refusal> {
        let numbers = self.of(axes, what)?;
        if numbers[..axes].contains(&0) {
            return Err(Refusal::new(format!(
                "{what} {:?}: it is at least 1",
                &numbers[..axes]
            )));
        }
        Ok(numbers)
    }
}

/// What surrounds the input of a convolution: `1`, `[1, 2]` per spatial axis, `[(0, 1), (2, 2)]` in front and behind per
/// axis, or [`Padding::Same`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Padding {
    /// So many elements in front and behind.
    Sides(PerAxis, PerAxis),
    /// As many as keep the input's extents, the odd one behind; with stride 1 only.
    Same,
}

/// The product of extents.
pub(super) fn product(extents: &[usize]) -> Result<usize, Refusal> {
    let whole = extents
        .iter()
        .try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    whole.ok_or_else(|| Refusal::new(format!("the product of {extents:?} is too large")))
}

impl Padding {
    /// None: only windows that lie inside the input.
    pub fn valid() -> Padding {
        Padding::from(0)
    }

    /// In front and behind per axis, for `taps` with `dilation`.
    pub(crate) fn sides(
        self,
        taps: &[usize],
        stride: &[usize; MAX_SPATIAL],
        dilation: &[usize; MAX_SPATIAL],
    ) -> Result<[[usize; MAX_SPATIAL]; 2], Refusal> {
        let axes = taps.len();
        match self {
            Padding::Sides(low, high) => Ok([low.of(axes, "padding")?, high.of(axes, "padding")?]),
            Padding::Same => {
                if let Some(step) = stride[..axes].iter().find(|&&step| step != 1) {
                    return Err(Refusal::new(format!("padding \"same\" with stride {step}"))
                        .help("give the padding in numbers"));
                }
                let (mut low, mut high) = ([0; MAX_SPATIAL], [0; MAX_SPATIAL]);
                for axis in 0..axes {
                    let total = taps[axis].saturating_sub(1) * dilation[axis];
                    low[axis] = total / 2;
                    high[axis] = total - total / 2;
                }
                Ok([low, high])
            }
        }
    }
}

impl From<usize> for Padding {
    fn from(number: usize) -> Padding {
        Padding::Sides(number.into(), number.into())
    }
}
