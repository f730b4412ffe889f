//! Attention whose products are matrix instructions of warps.

use super::{AttentionWords, Form};
use crate::operands::Full;
use crate::write::{Outline, Writer};
use crate::{Dialect, Launch, Source, Target, scalar};
use std::f32::consts::LOG2_E;
use thalweg_hal::DType;
use thalweg_hal::library::Attention;

/// Deeper heads go to the other routine; wider values take several tiles.
const WIDEST: u64 = 128;
/// What a block of CUDA has without asking for more.
const LOCAL_BYTES: u32 = 48 << 10;
/// Work-items that the instructions are for.
const WARP: u32 = 32;
/// Rows of a fragment.
const BAND: u32 = 16;

/// What a source depends on beside queries and columns of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    /// Depth of the queries, with the zeros that fill it up.
    depth: u8,
    /// Bands of queries of a warp. Two read keys and values once, and need twice the registers.
    bands: u8,
    /// Whether keys, and values, are copied 16 bytes at a time. Sums have the same order either way.
    copies: [bool; 2],
}

impl Matrix {
    /// Where the target has the instructions, for the dtype and the depth. Strides and places make no difference to that, so that
    /// they make none to the bits.
    pub(super) fn of(op: &Attention, target: &Target, full: &Full<'_>) -> Option<Matrix> {
        let (outer, all) = (full.body.outer(), full.launch.extents);
        let [queries, width, depth] = [outer - 2, outer - 1, outer + 1].map(|axis| all[axis]);
        let known = matches!(op.dtype, DType::F16 | DType::BF16 | DType::F32) && op.accumulate == DType::F32;
        let able = target.dialect == Dialect::CudaC && target.max_group_size >= Matrix::GROUP;
        let fits = (1..=WIDEST).contains(&depth);
        let narrow = op.dtype != DType::F32 && depth.max(width) <= 64;
        let twice = narrow && op.mask.is_none() && queries > 64;
        (able && known && fits).then(|| Matrix {
            depth: depth.next_multiple_of(BAND.into()) as u8,
            bands: 1 + u8::from(twice),
            copies: [(1, outer + 1, depth), (2, outer - 1, width)]
                .map(|(param, along, length)| in_pieces(full, param, along, length, op.dtype)),
        })
    }

    /// Columns of values of a tile.
    pub(super) fn columns(dtype: DType, width: u64) -> u32 {
        // Values of f32 are read down a column, two rows of four lanes beside each other.
        let least = if dtype == DType::F32 { 32 } else { BAND.into() };
        width.next_multiple_of(least).clamp(least, WIDEST) as u32
    }

    /// Groups of a multiprocessor. One of wide halves would take a few registers more than three can have.
    fn beside(self, op: &Attention, columns: u32) -> u32 {
        let wide = columns.max(self.depth.into()) > 64;
        let plain = op.mask.is_none() && self.copies == [true; 2];
        if op.dtype != DType::F32 && wide && plain {
            3
        } else {
            1
        }
    }

    /// Keys of a block.
    fn keys(self, dtype: DType, columns: u32) -> u32 {
        let wide = columns.max(self.depth.into()) > 64;
        if dtype == DType::F32 && wide { 32 } else { 64 }
    }

    /// Work-items of a group.
    pub(super) const GROUP: u32 = 4 * WARP;

    /// Queries of a tile.
    pub(super) fn rows(self) -> u32 {
        Matrix::GROUP / WARP * BAND * u32::from(self.bands)
    }
}

/// Whether each row of `length` elements along an axis is whole pieces of 16 bytes.
fn in_pieces(full: &Full<'_>, param: usize, along: usize, length: u64, dtype: DType) -> bool {
    let launch: &Launch<'_> = full.launch;
    let piece = 16 / dtype.size() as u64;
    let whole = |axis: usize| {
        let stride = full.stride(param, axis);
        match axis == along {
            true => stride == 1,
            false => stride.unsigned_abs().is_multiple_of(piece),
        }
    };
    length.is_multiple_of(piece)
        && launch.places[param].offset.is_multiple_of(16)
        && (0..launch.extents.len()).all(whole)
}

/// The source of an attention.
pub(super) fn source(writer: Writer<'_>, op: &Attention, form: Form, matrix: Matrix) -> Source {
    let outline = Outline {
        matrices: true,
        beside: matrix.beside(op, form.columns.into()),
        ..Outline::of(AttentionWords::declarations())
    };
    writer.program(
        outline,
        |writer| writer.matrix_head(op, form, matrix),
        |writer, _| {
            writer.attention_steps(op);
            writer.line("const idx strips = (width + TL_COLUMNS - 1) / TL_COLUMNS;");
            writer.raw(include_str!("matrix_memory.h"));
            writer.units(true, "rows * chunks * strips");
            writer.line("const idx which = unit / strips;");
            writer.line("const idx left = (unit - which * strips) * TL_COLUMNS;");
            // The longest of causal tiles first, of all heads.
            let [row, tile] = match op.causal {
                true => ["which % rows", "chunks - 1 - which / rows"],
                false => ["which / chunks", "which - r * chunks"],
            };
            writer.line(format!("const idx r = {row};"));
            writer.line(format!("const idx top = ({tile}) * length;"));
            writer.attention_operands(op);
            writer.line("bool odd = false;");
            writer.open("");
            writer.raw(include_str!("matrix.h"));
            writer.close();
            // What is not finite may be so because parts of f32 are not.
            if op.dtype == DType::F32 {
                writer.open("if (TL_ANY(odd))");
                writer.raw(include_str!("matrix_slow.h"));
                writer.close();
            }
            writer.close();
        },
    )
}

impl Writer<'_> {
    fn matrix_head(&mut self, op: &Attention, form: Form, matrix: Matrix) {
        self.attention_types(op);
        let (depth, columns) = (u32::from(matrix.depth), u32::from(form.columns));
        let dtype = op.dtype;
        let chunk = 16 / dtype.size() as u32;
        // A row and one chunk more.
        let pitches = [depth, columns].map(|length| length + chunk);
        let keys = matrix.keys(op.dtype, columns);
        let bytes = keys * (pitches[0] + pitches[1]) * op.dtype.size() as u32;
        self.constants(&[
            ("CAUSAL", op.causal.into()),
            ("ROWS", form.rows.into()),
            ("COLUMNS", columns),
            ("KEYS", keys),
            ("DEPTH", depth),
            ("BANDS", matrix.bands.into()),
            // Parts of queries that are kept from block to block take the registers of sums.
            ("ANEW", (dtype == DType::F32 && depth > 64).into()),
            ("CHUNK", chunk),
            ("STAGES", 1 + u32::from(2 * bytes <= LOCAL_BYTES)),
            ("K_PITCH", pitches[0]),
            ("V_PITCH", pitches[1]),
            ("K_COPIES", matrix.copies[0].into()),
            ("V_COPIES", matrix.copies[1].into()),
            ("MASKED", op.mask.is_some().into()),
            ("TOGETHER", columns / 8 / columns.div_ceil(64)),
            ("ADDED", op.mask.is_some_and(|mask| mask != DType::Bool).into()),
        ]);
        let steep = scalar::constant(DType::F32, LOG2_E.to_bits().into());
        self.line(format!("#define TL_LOG2_E {steep}"));
        let largest = scalar::constant(DType::F32, f32::MAX.to_bits().into());
        self.line(format!("#define TL_LARGEST {largest}"));
        self.attention_functions(op);
        let halves = dtype != DType::F32;
        let word = if halves {
            "element"
        } else {
            "tl_bits_of_f32(element)"
        };
        self.line(format!(
            "TL_FN u32 tl_word(const tl_in element) {{ return {word}; }}"
        ));
        if halves {
            self.line(format!(
                "TL_FN u32 tl_both(const f32 low, const f32 high) {{ return tl_pair_{dtype}(low, high); }}"
            ));
            self.line(format!("#define tl_mma tl_mma_{dtype}"));
        }
        self.raw(include_str!("matrix_stage.h"));
        self.raw(match op.dtype {
            DType::F32 => include_str!("matrix_f32.h"),
            _ => include_str!("matrix_halves.h"),
        });
    }
}
