//! f16 and bf16: conversions as integer code that vectorises.
//!
//! Blocks hold such values as f32 that are exactly representable in the narrow format.

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x0040_0000;

/// The f16 with these bits.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let wide = u32::from(bits);
    let shifted = (wide & 0x7fff) << 13;
    // 2^112 moves the exponent's bias; subnormals become normal.
    let value = (f32::from_bits(shifted) * 5.192_296_9e33).to_bits();
    let quiet = if wide & 0x3ff == 0 { 0 } else { QUIET };
    let special = shifted | INFINITY | quiet;
    let magnitude = if wide & 0x7c00 == 0x7c00 { special } else { value };
    f32::from_bits(magnitude | (wide & 0x8000) << 16)
}

/// `x` rounded to the nearest f16, ties to even.
#[inline(always)]
pub(crate) fn f16_round(x: f32) -> f32 {
    let bits = x.to_bits();
    let a = bits & !SIGN;
    let rounded = (a.wrapping_add(0xfff + ((a >> 13) & 1))) & !0x1fff;
    let rounded = if rounded >= 0x4780_0000 { INFINITY } else { rounded };
    // Below 2^-14 the spacing is that of f32 in [1/2, 1).
    let small = ((f32::from_bits(a) + 0.5) - 0.5).to_bits();
    let magnitude = if a < 0x3880_0000 { small } else { rounded };
    let magnitude = if a > INFINITY { a | QUIET } else { magnitude };
    f32::from_bits(magnitude | bits & SIGN)
}

/// The bits of an f16 that `x` is exactly.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let a = bits & !SIGN;
    // 2^-112.
    let scaled = (f32::from_bits(a) * 1.925_929_9e-34).to_bits() >> 13;
    let special = 0x7c00 | ((a & 0x7f_ffff) >> 13);
    let magnitude = if a >= INFINITY { special } else { scaled };
    (magnitude | (bits & SIGN) >> 16) as u16
}

/// The bf16 with these bits.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `x` rounded to the nearest bf16, ties to even.
#[inline(always)]
pub(crate) fn bf16_round(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    let nan = (bits | QUIET) & 0xffff_0000;
    f32::from_bits(if bits & !SIGN > INFINITY { nan } else { rounded })
}

/// The bits of a bf16 that `x` is exactly.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    (x.to_bits() >> 16) as u16
}
