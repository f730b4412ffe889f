//! Elements on the host.

use thalweg::hal::{every_dtype, types};
use thalweg::{Context, DType, Element, Result, Tensor};

macro_rules! columns {
    ($($name:ident $type:ident $class:ident;)*) => {
        /// Elements of one dtype on the host.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Column {
            $(
                #[doc = concat!("`", stringify!($type), "`.")]
                $name(Vec<types::$type>),
            )*
        }

        $(
            impl From<Vec<types::$type>> for Column {
                fn from(data: Vec<types::$type>) -> Column {
                    Column::$name(data)
                }
            }
        )*

        impl Column {
            /// Element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Column::$name(_) => DType::$name,)*
                }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Column::$name(data) => data.len(),)*
                }
            }

            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements of a tensor.
            ///
            /// # Errors
            /// What computing it fails with.
            pub fn of(tensor: &Tensor) -> Result<Column> {
                Ok(match tensor.dtype()? {
                    $(DType::$name => Column::$name(tensor.to_vec()?),)*
                })
            }

            /// A tensor of these elements.
            ///
            /// # Errors
            /// Another number of elements than the shape has; memory does not suffice.
            pub fn tensor(self, shape: &[usize], cx: &Context) -> Result<Tensor> {
                match self {
                    $(Column::$name(data) => Tensor::from_vec(data, shape, cx).ok(),)*
                }
            }

            /// Elements from pieces of little-endian bytes, one after the other; bytes that are no whole element are left out.
            pub fn from_le_bytes<'a>(dtype: DType, pieces: impl Iterator<Item = &'a [u8]>) -> Column {
                match dtype {
                    $(DType::$name => Column::$name(decoded(pieces)),)*
                }
            }

            /// The elements as little-endian bytes.
            pub fn to_le_bytes(&self) -> Vec<u8> {
                match self {
                    $(Column::$name(data) => encoded(data),)*
                }
            }

            /// The elements as f64, rounded where that is too narrow.
            pub fn to_f64(&self) -> Vec<f64> {
                match self {
                    $(Column::$name(data) => data.iter().map(|element| element.to_f64()).collect(),)*
                }
            }

            /// Pieces of `each` elements that start at multiples of `each`, one after the other; `None` where there is no such piece.
            pub(super) fn pieces(&self, each: usize, numbers: &[usize]) -> Option<Column> {
                Some(match self {
                    $(Column::$name(data) => Column::$name(gathered(data, each, numbers)?),)*
                })
            }
        }
    };
}

every_dtype!(columns);

fn decoded<'a, T: Element>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<T> {
    let (mut data, mut bits) = (Vec::new(), [0; 8]);
    for element in pieces.flat_map(|piece| piece.chunks_exact(T::DTYPE.size())) {
        bits[..element.len()].copy_from_slice(element);
        data.push(T::from_bits(u64::from_le_bytes(bits)));
    }
    data
}

fn encoded<T: Element>(data: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(data));
    for element in data {
        bytes.extend_from_slice(&element.bits().to_le_bytes()[..T::DTYPE.size()]);
    }
    bytes
}

fn gathered<T: Element>(data: &[T], each: usize, numbers: &[usize]) -> Option<Vec<T>> {
    let mut gathered = Vec::with_capacity(each * numbers.len());
    for &number in numbers {
        gathered.extend_from_slice(data.get(number * each..(number + 1) * each)?);
    }
    Some(gathered)
}
