//! The form of a library op that crosses the ABI.
//!
//! Library ops are whole operations that a backend may offer beside the IR. A library op is launched like a kernel: extents
//! of its index space, one binding a parameter with strides over that space. All but sort and attention are a kernel of the IR as
//! well, with the same launch, so a backend without them loses speed and nothing else.

use super::refuse;
use crate::dtype::DType;
use crate::ir::{self, Kernel, KernelDesc, Owned};
use crate::status::Result;

/// Code of `matmul` in [`LibraryDesc::op`]:
/// `out[b.., i, j] = epilogue(sum over l of a[b.., i, l] * b[b.., l, j])`.
///
/// Dtypes: `a`, `b`, accumulator, output. Attribute 0: number of batch axes. Index space: outer `[b.., m, n]`, inner
/// `[k]`. Parameters: `a` and `b` (element level, strided), the epilogue's further inputs, the output (row level,
/// strided).
pub const MATMUL: u32 = 1;

/// Code of `conv` in [`LibraryDesc::op`]:
/// `out[n, g, co, o..] = epilogue(sum over ci, k.. of x[n, g, ci, o * stride + k * dilation - padding] * w[g, co, ci, k..])`,
/// where x is 0 outside its extents.
///
/// Dtypes: x, w, accumulator, output. Attributes: 0 the number r of spatial axes, 1 to 3 their strides, 4 to 6 their
/// dilations, 7 to 9 their padding before the first element; those of axes that there are not are 0. 10 is 1 where a form that is
/// faster and rounds otherwise is welcome: a backend may ignore it. Index space: outer `[n, g, co, o..]`, inner `[ci, k..]`.
/// Scalars, i64: x's r spatial extents, then its r spatial strides in elements. Parameters: x and w (element level, strided), the epilogue's further inputs, the output (row level, strided). x has
/// stride 0 along co, o and k; its spatial axes are reached by its gather, whose index is the sum of position times
/// spatial stride.
pub const CONV: u32 = 2;

/// Code of `conv_grad_input` in [`LibraryDesc::op`]:
/// `dx[n, g, ci, i..] = epilogue(sum over co, k.. of dy[n, g, co, o..] * w[g, co, ci, k..])` where
/// `o * stride + k * dilation - padding = i`.
///
/// Dtypes and attributes as [`CONV`]. Index space: outer `[n, g, ci, i..]`, inner `[co, k..]`. Scalars and parameters as
/// [`CONV`] with dy in the place of x; dy has stride 0 along ci, i and k.
pub const CONV_GRAD_INPUT: u32 = 3;

/// Code of `conv_grad_weight` in [`LibraryDesc::op`]:
/// `dw[g, co, ci, k..] = epilogue(sum over n, o.. of x[n, g, ci, o * stride + k * dilation - padding] * dy[n, g, co, o..])`.
///
/// Dtypes and attributes as [`CONV`]. Index space: outer `[g, co, ci, k..]`, inner `[n, o..]`. Scalars and parameters as
/// [`CONV`] with dy in the place of w; x has stride 0 along co, k and o.
pub const CONV_GRAD_WEIGHT: u32 = 4;

/// Code of `scatter` in [`LibraryDesc::op`]: `out[b.., d]` is `base[b.., d]` combined with every `updates[b.., m]` whose
/// `index[b.., m]` is d.
///
/// Dtypes: values, accumulator, index (i32 or i64). Attributes: 0 the number of batch axes, 1 how to combine: 0 sets (the
/// update with the greatest m wins), otherwise the code of a sum, product, maximum or minimum among the reductions.
/// Index space: outer `[b.., d]`, inner `[m]`. Parameters: base (row level, strided), updates (row level, strided, stride 0
/// along d, gathered along m), index (element level, strided, stride 0 along d), the output (row level, strided). An index
/// outside the extent of d is skipped.
pub const SCATTER: u32 = 5;

/// Code of `scan` in [`LibraryDesc::op`]: `out[b.., i]` is the reduction of `x[b.., j]` over all `j <= i`, or `j < i`.
///
/// Dtypes: x, accumulator, output. Attributes: 0 the number of batch axes, 1 the code of the reduction (sum, product,
/// maximum or minimum), 2 is 1 when j = i is left out. Index space: outer `[b.., i]`, inner `[j]`, both of the axis's extent.
/// Parameters: x (element level, strided, stride 0 along i), the output (row level, strided).
pub const SCAN: u32 = 6;

/// Code of `sort` in [`LibraryDesc::op`]: the elements along the last axis in order, and where each was. Equal elements keep
/// their order, NaN comes last.
///
/// Dtypes: x. Attributes: 0 the number of batch axes, 1 is 1 when the greatest comes first, 2 is 1 when the indices are wanted: a
/// backend may refuse a sort without them, and then gets one with them. 3 is 1 when the first elements of the order alone are wanted:
/// a backend may refuse this too. Index space: outer `[b.., n]`, no inner axes. Parameters, all at row level and strided: x, the sorted
/// elements, their indices in x as i64 if they are wanted. With attribute 3, n is how many elements are wanted, and x has stride 0
/// along it: the elements of its row are reached by its gather, and there are at least n.
pub const SORT: u32 = 7;

/// Code of `attention` in [`LibraryDesc::op`]: `out[b.., i, e] = sum over j of w[b.., i, j] * v[b.., j, e]`, where w is the softmax
/// along j of the scores `scale * sum over d of q[b.., i, d] * k[b.., j, d]`, masked. A row whose scores are all -inf gives zeros, and so does a launch without keys or without depth, which reads nothing.
///
/// Dtypes: q, k, v and the output; scores and sums. Attributes: 0 the number of batch axes, 1 is 1 when query i sees keys 0
/// to i alone, 2 the dtype code of the mask, 0 when there is none: bool, true where a query sees a key, or the dtype of the
/// scores, which it is added to. Index space: outer `[b.., i, e]`, inner `[j, d]`. Scalar: scale, in the dtype of the scores.
/// Parameters, all strided: q (element level, stride 0 along e and j), k (element level, stride 0 along i and e), v (element level,
/// stride 0 along i and d), the mask if there is one (element level, stride 0 along e and d), the output (row level).
pub const ATTENTION: u32 = 8;

/// The ABI form of a library op.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LibraryDesc {
    /// Which op; `Unsupported` for a code the backend does not know.
    pub op: u32,
    /// Number of dtypes that are read.
    pub dtype_count: u32,
    /// Dtype codes, their meaning is the op's.
    pub dtypes: [u32; 8],
    /// Integer attributes, their meaning is the op's; unused ones are 0.
    pub attributes: [i64; 24],
    /// A map that is applied to the result before it is stored, or null. Scatter, scan, sort and attention have none.
    pub epilogue: *const KernelDesc,
}

/// Owns what a [`LibraryDesc`] points to.
#[derive(Debug)]
pub struct OwnedLibrary {
    op: u32,
    dtype_count: u32,
    dtypes: [u32; 8],
    attributes: [i64; 24],
    epilogue: Option<Owned>,
}

impl OwnedLibrary {
    pub(super) fn new(
        op: u32,
        dtypes: &[DType],
        attributes: &[i64],
        epilogue: Option<&Kernel>,
    ) -> OwnedLibrary {
        let mut owned = OwnedLibrary {
            op,
            dtype_count: dtypes.len() as u32,
            dtypes: [0; 8],
            attributes: [0; 24],
            epilogue: epilogue.map(ir::encode),
        };
        for (code, dtype) in owned.dtypes.iter_mut().zip(dtypes) {
            *code = dtype.code();
        }
        owned.attributes[..attributes.len()].copy_from_slice(attributes);
        owned
    }

    /// The ABI form of the epilogue, to be kept alive beside [`OwnedLibrary::desc`].
    pub fn epilogue(&self) -> Option<KernelDesc> {
        self.epilogue.as_ref().map(Owned::desc)
    }

    /// The ABI form; `epilogue` is what [`OwnedLibrary::epilogue`] returned.
    pub fn desc(&self, epilogue: Option<&KernelDesc>) -> LibraryDesc {
        LibraryDesc {
            op: self.op,
            dtype_count: self.dtype_count,
            dtypes: self.dtypes,
            attributes: self.attributes,
            epilogue: epilogue.map_or(std::ptr::null(), std::ptr::from_ref),
        }
    }
}

/// The dtypes and attributes of a descriptor, whose unused ones are 0.
pub(super) struct Fields<'a, const DTYPES: usize> {
    pub(super) dtypes: [DType; DTYPES],
    pub(super) attributes: &'a [i64],
}

impl LibraryDesc {
    /// Reads `DTYPES` dtypes and `attributes` attributes.
    pub(super) fn fields<const DTYPES: usize>(
        &self,
        name: &str,
        attributes: usize,
    ) -> Result<Fields<'_, DTYPES>> {
        if self.dtype_count != DTYPES as u32 {
            return refuse(name, format!("it has {DTYPES} dtypes, not {}", self.dtype_count));
        }
        let (used, unused) = self.attributes.split_at(attributes);
        if self.dtypes[DTYPES..].iter().any(|&code| code != 0) || unused.iter().any(|&value| value != 0) {
            return refuse(name, "an attribute that it does not have is not 0");
        }
        let mut dtypes = [DType::F32; DTYPES];
        for (dtype, &code) in dtypes.iter_mut().zip(&self.dtypes) {
            match DType::from_code(code) {
                Some(known) => *dtype = known,
                None => return refuse(name, format!("unknown dtype code {code}")),
            }
        }
        Ok(Fields {
            dtypes,
            attributes: used,
        })
    }

    /// Reads the epilogue.
    ///
    /// # Safety
    /// It is null or as [`ir::decode`] asks.
    pub(super) unsafe fn map(&self, name: &str) -> Result<Option<Kernel>> {
        if self.epilogue.is_null() {
            return Ok(None);
        }
        if !self.epilogue.is_aligned() {
            return refuse(name, "the pointer to the epilogue is misaligned");
        }
        // SAFETY: the caller vouches for it.
        unsafe { ir::decode(&*self.epilogue) }.map(Some)
    }
}

/// An attribute that counts something.
pub(super) fn count(name: &str, what: &str, value: i64) -> Result<u32> {
    u32::try_from(value).or_else(|_| refuse(name, format!("{value} {what}")))
}

/// An attribute that is 0 or 1.
pub(super) fn flag(name: &str, what: &str, value: i64) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => refuse(name, format!("`{what}` is {value}, not 0 or 1")),
    }
}
