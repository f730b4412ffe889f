//! How the strides of a product fit what cuBLASLt takes: matrices whose columns have no gaps, and one batch stride each.

/// A matrix as it lies in memory: `rows` × `columns` with columns `ld` elements apart, read as it is or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) ld: i64,
    pub(crate) transposed: bool,
    /// Elements from one product of a batch to the next.
    pub(crate) batch: i64,
}

impl Matrix {
    /// The matrix whose element at row `i` and column `j` lies at `i * down + j * right`.
    pub(crate) fn new(rows: u64, columns: u64, down: i64, right: i64) -> Option<Matrix> {
        let make = |rows: u64, columns: u64, step: i64, transposed| {
            // The distance between columns of a single one does not matter.
            let ld = if columns == 1 { rows as i64 } else { step };
            (ld >= rows as i64).then_some(Matrix {
                rows,
                columns,
                ld,
                transposed,
                batch: 0,
            })
        };
        let plain = (down == 1 || rows == 1).then(|| make(rows, columns, right, false));
        let turned = || (right == 1 || columns == 1).then(|| make(columns, rows, down, true));
        plain.flatten().or_else(|| turned().flatten())
    }
}

/// The one stride of several batch axes, if they have one.
pub(crate) fn batch(extents: &[u64], strides: &[i64]) -> Option<i64> {
    let mut axes = extents
        .iter()
        .zip(strides)
        .rev()
        .filter(|(extent, _)| **extent != 1);
    let Some((extent, stride)) = axes.next() else {
        return Some(0);
    };
    let mut next = stride.checked_mul(i64::try_from(*extent).ok()?)?;
    for (extent, outer) in axes {
        if *outer != next {
            return None;
        }
        next = outer.checked_mul(i64::try_from(*extent).ok()?)?;
    }
    Some(*stride)
}

/// A product `d = a · b` in columns: the operands in cuBLASLt's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) m: u64,
    pub(crate) n: u64,
    pub(crate) k: u64,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) d: Matrix,
    /// Products of the batch.
    pub(crate) count: u64,
    /// Whether the first operand is the launch's second: rows of the output are columns then.
    pub(crate) swapped: bool,
    /// Bytes that all addresses are multiples of, at most 16.
    pub(crate) alignment: u32,
}

impl Shape {
    /// The shape of a launch with these extents (`[batch.., m, n, k]`) and strides (`[batch.., m, n]` of the output).
    pub(crate) fn new(extents: &[u64], a: &[i64], b: &[i64], d: &[i64]) -> Option<Shape> {
        let (&[m, n, k], outer) = (extents.last_chunk::<3>()?, extents.len().checked_sub(3)?);
        let fits = |extent: u64| (1..=i32::MAX as u64).contains(&extent);
        let count: u64 = extents[..outer].iter().product();
        if ![m, n, k, count].into_iter().all(fits) {
            return None;
        }
        let stride = |strides: &[i64]| batch(&extents[..outer], strides.get(..outer)?);
        let batches = [stride(a)?, stride(b)?, stride(d)?];
        // Products of a batch do not share an output, and follow one another upwards.
        if batches.iter().any(|&stride| stride < 0) || (count > 1 && batches[2] == 0) {
            return None;
        }
        let at = |strides: &[i64], axis: usize| strides.get(outer + axis).copied();
        let a = (at(a, 0)?, at(a, 2)?);
        let b = (at(b, 2)?, at(b, 1)?);
        let d = (at(d, 0)?, at(d, 1)?);
        // Rows of the output without gaps are columns of its transpose.
        let swapped = d.1 == 1 || n == 1;
        let (a, b, d) = if swapped {
            (
                Matrix::new(n, k, b.1, b.0)?,
                Matrix::new(k, m, a.1, a.0)?,
                Matrix::new(n, m, d.1, d.0)?,
            )
        } else {
            (
                Matrix::new(m, k, a.0, a.1)?,
                Matrix::new(k, n, b.0, b.1)?,
                Matrix::new(m, n, d.0, d.1)?,
            )
        };
        if d.transposed {
            return None;
        }
        let [first, second, out] = batches;
        let (first, second) = if swapped { (second, first) } else { (first, second) };
        let (m, n) = if swapped { (n, m) } else { (m, n) };
        Some(Shape {
            m,
            n,
            k,
            a: Matrix { batch: first, ..a },
            b: Matrix { batch: second, ..b },
            d: Matrix { batch: out, ..d },
            count,
            swapped,
            alignment: 16,
        })
    }

    /// Whether the library takes operands of eight bits in this shape, with an output of elements of `output` bytes: the first
    /// one transposed, the second as it is, and every address, extent and step a multiple of 16 bytes.
    pub(crate) fn fits_f8(&self, output: u64) -> bool {
        let even = |matrix: &Matrix, size: u64| {
            [matrix.ld as u64, matrix.batch as u64]
                .iter()
                .all(|step| step.wrapping_mul(size) % 16 == 0)
        };
        self.a.transposed
            && !self.b.transposed
            && self.alignment == 16
            && [self.m, self.n, self.k].iter().all(|extent| extent % 16 == 0)
            && even(&self.a, 1)
            && even(&self.b, 1)
            && even(&self.d, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element (i, j) of what a matrix is read as.
    fn at(matrix: &Matrix, i: i64, j: i64) -> i64 {
        let (row, column) = if matrix.transposed { (j, i) } else { (i, j) };
        assert!(row < matrix.rows as i64 && column < matrix.columns as i64);
        row + column * matrix.ld
    }

    /// Every element of every operand lies where the launch's strides say.
    fn check(extents: [u64; 4], a: [i64; 4], b: [i64; 4], d: [i64; 3]) {
        let shape = Shape::new(&extents, &a, &b, &d).unwrap();
        let [batch, m, n, k] = extents.map(|extent| extent as i64);
        assert_eq!(shape.count as i64, batch);
        for (p, i, j, l) in (0..batch).flat_map(|p| {
            (0..m).flat_map(move |i| (0..n).flat_map(move |j| (0..k).map(move |l| (p, i, j, l))))
        }) {
            let (x, y, row, column) = if shape.swapped {
                (&shape.b, &shape.a, j, i)
            } else {
                (&shape.a, &shape.b, i, j)
            };
            let (first, second) = if shape.swapped {
                (at(x, l, i), at(y, j, l))
            } else {
                (at(x, i, l), at(y, l, j))
            };
            assert_eq!(first + p * x.batch, p * a[0] + i * a[1] + l * a[3]);
            assert_eq!(second + p * y.batch, p * b[0] + j * b[2] + l * b[3]);
            let out = at(&shape.d, row, column) + p * shape.d.batch;
            assert_eq!(out, p * d[0] + i * d[1] + j * d[2]);
        }
    }

    #[test]
    fn layouts_keep_every_element() {
        let extents = [2, 3, 4, 5];
        for a in [[15, 5, 0, 1], [15, 1, 0, 3], [0, 7, 0, 1]] {
            for b in [[20, 0, 1, 4], [20, 0, 5, 1], [0, 0, 1, 9]] {
                for d in [[12, 4, 1], [12, 1, 3], [40, 6, 1]] {
                    check(extents, a, b, d);
                }
            }
        }
        check([1, 1, 4, 5], [0, 99, 0, 1], [0, 0, 1, 4], [0, 77, 1]);
        check([1, 3, 1, 5], [0, 5, 0, 1], [0, 0, 3, 1], [0, 1, 9]);
        check([1, 3, 4, 1], [0, 1, 0, 8], [0, 0, 1, 8], [0, 4, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (a, b, d) = ([15, 5, 0, 1], [20, 0, 1, 4], [12, 4, 1]);
        let refused = |a: [i64; 4], b: [i64; 4], d: [i64; 3]| Shape::new(&[2, 3, 4, 5], &a, &b, &d).is_none();
        assert!(!refused(a, b, d));
        // No unit stride, an overlapping one, a reversed axis, a shared output, an output with gaps both ways.
        assert!(refused([30, 10, 0, 2], b, d) && refused([15, 2, 0, 1], b, d));
        assert!(refused([15, -5, 0, 1], b, d) && refused(a, b, [0, 4, 1]) && refused(a, b, [24, 8, 2]));
        // A batch backwards.
        assert!(refused([-15, 5, 0, 1], b, d) && refused(a, [-20, 0, 1, 4], d) && refused(a, b, [-12, 4, 1]));
        assert!(Shape::new(&[2, 0, 4, 5], &a, &b, &d).is_none());
    }

    #[test]
    fn eight_bits_want_even_rows_and_a_transposed_weight() {
        let (extents, rows, turned) = ([2, 16, 48, 32], [512, 32, 0, 1], [1536, 0, 32, 1]);
        let fits = |extents: [u64; 4], a: [i64; 4], b: [i64; 4], d: [i64; 3]| {
            Shape::new(&extents, &a, &b, &d).unwrap().fits_f8(4)
        };
        let out = [768, 48, 1];
        assert!(fits(extents, rows, turned, out));
        // The other three forms, and steps that are not even.
        assert!(!fits(extents, rows, [1536, 0, 1, 48], out));
        assert!(!fits(extents, [512, 1, 0, 16], turned, out));
        assert!(!fits(extents, [576, 36, 0, 1], turned, out));
        assert!(!fits(extents, rows, [1540, 0, 32, 1], out));
        assert!(!fits(extents, rows, turned, [800, 50, 1]));
        assert!(fits(extents, rows, turned, [832, 52, 1]));
        for small in [[2, 8, 48, 32], [2, 16, 40, 32], [2, 16, 48, 24]] {
            assert!(!fits(small, rows, turned, out), "{small:?}");
        }
        // The output's columns without gaps: the operands do not change places, and nor does what is asked of them.
        assert!(fits(extents, rows, turned, [768, 1, 16]));
        let odd = Shape {
            alignment: 8,
            ..Shape::new(&extents, &rows, &turned, &out).unwrap()
        };
        assert!(!odd.fits_f8(4));
    }

    #[test]
    fn batch_axes_join() {
        assert_eq!(batch(&[2, 3], &[30, 10]), Some(10));
        assert_eq!(batch(&[2, 1, 3], &[30, 7, 10]), Some(10));
        assert_eq!(batch(&[2, 3], &[0, 0]), Some(0));
        assert_eq!(batch(&[2, 3], &[0, 10]), None);
        assert_eq!(batch(&[], &[]), Some(0));
    }
}
