//! Elements on the host.

use thalweg::{Context, DType, Element, F8E4M3, F8E5M2, Result, Tensor};

macro_rules! columns {
    ($($name:ident $type:ty, $from:expr, $to:expr;)*) => {
        /// Elements of one dtype on the host.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Column {
            $(
                #[doc = concat!("`", stringify!($type), "`.")]
                $name(Vec<$type>),
            )*
        }

        $(
            impl From<Vec<$type>> for Column {
                fn from(data: Vec<$type>) -> Column {
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
                    $(DType::$name => Column::$name(decoded(pieces, $from)),)*
                }
            }

            /// The elements as little-endian bytes.
            pub fn to_le_bytes(&self) -> Vec<u8> {
                match self {
                    $(Column::$name(data) => data.iter().copied().flat_map($to).collect(),)*
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

columns! {
    F64 f64, f64::from_le_bytes, f64::to_le_bytes;
    F32 f32, f32::from_le_bytes, f32::to_le_bytes;
    F16 half::f16, half::f16::from_le_bytes, half::f16::to_le_bytes;
    BF16 half::bf16, half::bf16::from_le_bytes, half::bf16::to_le_bytes;
    F8E4M3 F8E4M3, |[byte]: [u8; 1]| F8E4M3::from_bits(byte), |value| [value.to_bits()];
    F8E5M2 F8E5M2, |[byte]: [u8; 1]| F8E5M2::from_bits(byte), |value| [value.to_bits()];
    I64 i64, i64::from_le_bytes, i64::to_le_bytes;
    I32 i32, i32::from_le_bytes, i32::to_le_bytes;
    I16 i16, i16::from_le_bytes, i16::to_le_bytes;
    I8 i8, i8::from_le_bytes, i8::to_le_bytes;
    U64 u64, u64::from_le_bytes, u64::to_le_bytes;
    U32 u32, u32::from_le_bytes, u32::to_le_bytes;
    U16 u16, u16::from_le_bytes, u16::to_le_bytes;
    U8 u8, u8::from_le_bytes, u8::to_le_bytes;
    Bool bool, |[byte]: [u8; 1]| byte != 0, |value| [u8::from(value)];
}

fn decoded<'a, T, const N: usize>(
    pieces: impl Iterator<Item = &'a [u8]>,
    from: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let mut data = Vec::new();
    for piece in pieces {
        data.extend(piece.as_chunks().0.iter().map(|bytes| from(*bytes)));
    }
    data
}

fn gathered<T: Element>(data: &[T], each: usize, numbers: &[usize]) -> Option<Vec<T>> {
    let mut gathered = Vec::with_capacity(each * numbers.len());
    for &number in numbers {
        gathered.extend_from_slice(data.get(number * each..(number + 1) * each)?);
    }
    Some(gathered)
}
