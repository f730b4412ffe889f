//! Planes through weights.

use thalweg::Shape;
use thalweg::random::Mt19937;

/// How much of the way's extent lies beside it.
const MARGIN: f64 = 0.25;
/// What separates a direction from rounding errors, relative to the first one.
const LEAST: f64 = 1e-12;

/// A plane: a point and two directions.
pub(super) struct Plane {
    pub(super) name: String,
    centre: Vec<f64>,
    directions: [Vec<f64>; 2],
    /// Steps or epochs, and where their weights lie.
    pub(super) path: Vec<(u64, [f64; 2])>,
}

impl Plane {
    /// The plane through the last weights along the two main directions of the way to them; `None` where the way has fewer.
    pub(super) fn of_way(name: String, at: &[u64], mut way: Vec<Vec<f64>>) -> Option<Plane> {
        let centre = way.pop()?;
        for weights in &mut way {
            weights
                .iter_mut()
                .zip(&centre)
                .for_each(|(weight, centre)| *weight -= centre);
        }
        let products: Vec<Vec<f64>> = (way.iter())
            .map(|one| way.iter().map(|other| dot(one, other)).collect())
            .collect();
        let main = main_vectors(products);
        let (first, second) = (main.first()?, main.get(1)?);
        if first.0 <= 0.0 || second.0 <= first.0 * LEAST {
            return None;
        }
        let along = |vector: &[f64]| {
            let mut sum = vec![0.0; centre.len()];
            for (weights, factor) in way.iter().zip(vector) {
                sum.iter_mut()
                    .zip(weights)
                    .for_each(|(sum, weight)| *sum += factor * weight);
            }
            let length = dot(&sum, &sum).sqrt();
            sum.iter_mut().for_each(|weight| *weight /= length);
            sum
        };
        let directions = [along(&first.1), along(&second.1)];
        let place = |weights: &Vec<f64>| [dot(weights, &directions[0]), dot(weights, &directions[1])];
        let places = way.iter().map(place).chain([[0.0, 0.0]]);
        Some(Plane {
            name,
            path: at.iter().copied().zip(places).collect(),
            centre,
            directions,
        })
    }

    /// A plane along two random directions, whose filters are as long as those of the weights; what has one axis stays.
    pub(super) fn around(name: String, at: u64, centre: Vec<f64>, shapes: &[Shape]) -> Plane {
        let mut generator = Mt19937::from_key(&[0x6c61_6e64]);
        let mut direction = || {
            let mut direction = Vec::with_capacity(centre.len());
            for shape in shapes {
                let begin = direction.len();
                let weights = &centre[begin..(begin + shape.elements()).min(centre.len())];
                if shape.len() < 2 {
                    direction.extend(weights.iter().map(|_| 0.0));
                    continue;
                }
                for filter in weights.chunks((weights.len() / shape[0].max(1)).max(1)) {
                    let mut random: Vec<f64> = filter.iter().map(|_| normal(&mut generator)).collect();
                    let scale = (dot(filter, filter) / dot(&random, &random).max(f64::MIN_POSITIVE)).sqrt();
                    random.iter_mut().for_each(|number| *number *= scale);
                    direction.extend(random);
                }
            }
            direction
        };
        let directions = [direction(), direction()];
        Plane {
            name,
            centre,
            directions,
            path: vec![(at, [0.0, 0.0])],
        }
    }

    /// So many places on each axis: around the way, or from -1 to 1 where it is a point.
    pub(super) fn axes(&self, size: usize) -> (Vec<f64>, Vec<f64>) {
        let axis = |which: usize| {
            let places = || self.path.iter().map(|(_, place)| place[which]);
            let (low, high) = (
                places().fold(f64::INFINITY, f64::min),
                places().fold(f64::NEG_INFINITY, f64::max),
            );
            let (low, high) = match high > low {
                true => (low - MARGIN * (high - low), high + MARGIN * (high - low)),
                false => (-1.0, 1.0),
            };
            let place = |at: usize| low + (high - low) * at as f64 / (size - 1) as f64;
            (0..size).map(place).collect()
        };
        (axis(0), axis(1))
    }

    /// The weights at a place.
    pub(super) fn point(&self, x: f64, y: f64) -> Vec<f64> {
        let [first, second] = &self.directions;
        (self.centre.iter().zip(first).zip(second))
            .map(|((centre, first), second)| centre + x * first + y * second)
            .collect()
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// A number from the normal distribution (Box and Muller 1958).
fn normal(generator: &mut Mt19937) -> f64 {
    let (radius, angle) = (1.0 - generator.random(), generator.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Eigenvalues and eigenvectors of a symmetric matrix, the largest first, by rotations (Jacobi 1846).
fn main_vectors(mut matrix: Vec<Vec<f64>>) -> Vec<(f64, Vec<f64>)> {
    const SWEEPS: usize = 64;
    let size = matrix.len();
    let unit = |row: usize| {
        (0..size)
            .map(|column| f64::from(u8::from(row == column)))
            .collect()
    };
    let mut vectors: Vec<Vec<f64>> = (0..size).map(unit).collect();
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for (p, q) in (0..size).flat_map(|p| (p + 1..size).map(move |q| (p, q))) {
            if matrix[p][q].abs() <= f64::EPSILON * (matrix[p][p] * matrix[q][q]).abs().sqrt() {
                continue;
            }
            rotated = true;
            let theta = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
            let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
            let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
            let sine = tangent * cosine;
            for row in &mut matrix {
                (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
            }
            for column in 0..size {
                let (upper, lower) = (matrix[p][column], matrix[q][column]);
                (matrix[p][column], matrix[q][column]) =
                    (cosine * upper - sine * lower, sine * upper + cosine * lower);
                let (upper, lower) = (vectors[p][column], vectors[q][column]);
                (vectors[p][column], vectors[q][column]) =
                    (cosine * upper - sine * lower, sine * upper + cosine * lower);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut pairs: Vec<_> = (vectors.into_iter().enumerate())
        .map(|(at, vector)| (matrix[at][at], vector))
        .collect();
    pairs.sort_by(|one, other| other.0.total_cmp(&one.0));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvectors_of_a_matrix_that_is_known() {
        // Eigenvalues 4, 2, 1 along (1, 1, 0), (1, -1, 0), (0, 0, 1).
        let pairs = main_vectors(vec![
            vec![3.0, 1.0, 0.0],
            vec![1.0, 3.0, 0.0],
            vec![0.0, 0.0, 1.0],
        ]);
        let values: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        for (got, wanted) in values.iter().zip([4.0, 2.0, 1.0]) {
            assert!((got - wanted).abs() < 1e-12, "{values:?}");
        }
        let first = &pairs[0].1;
        assert!(
            (first[0] - first[1]).abs() < 1e-12 && first[2].abs() < 1e-12,
            "{first:?}"
        );
    }

    #[test]
    fn a_way_in_a_plane_is_found_again() {
        // In the plane of the second and third axis of four.
        let way = vec![
            vec![1.0, 5.0, 0.0, 2.0],
            vec![1.0, 3.0, 2.0, 2.0],
            vec![1.0, 1.0, 1.0, 2.0],
            vec![1.0, 0.0, 0.0, 2.0],
        ];
        let plane = Plane::of_way("way".into(), &[1, 2, 3, 4], way.clone()).unwrap();
        assert_eq!(plane.path[3], (4, [0.0, 0.0]));
        for (weights, (_, [x, y])) in way.iter().zip(&plane.path) {
            let again = plane.point(*x, *y);
            for (got, wanted) in again.iter().zip(weights) {
                assert!((got - wanted).abs() < 1e-9, "{again:?} {weights:?}");
            }
        }
        let (x, y) = plane.axes(5);
        for (_, place) in &plane.path {
            assert!(x[0] < place[0] && place[0] < x[4] && y[0] < place[1] && place[1] < y[4]);
        }
        let line = vec![vec![1.0, 1.0], vec![2.0, 2.0], vec![3.0, 3.0]];
        assert!(Plane::of_way("line".into(), &[1, 2, 3], line).is_none());
    }

    #[test]
    fn random_directions_are_as_long_as_the_filters() {
        let shapes = [&[2, 3][..], &[2]].map(|extents| Shape::new(extents).unwrap());
        let centre = vec![1.0, 2.0, 2.0, 0.0, 0.0, 5.0, 7.0, 8.0];
        let plane = Plane::around("result".into(), 9, centre.clone(), &shapes);
        for direction in &plane.directions {
            assert!((dot(&direction[..3], &direction[..3]).sqrt() - 3.0).abs() < 1e-12);
            assert!((dot(&direction[3..6], &direction[3..6]).sqrt() - 5.0).abs() < 1e-12);
            assert_eq!(direction[6..], [0.0, 0.0]);
        }
        assert_ne!(plane.directions[0], plane.directions[1]);
        assert_eq!(plane.point(0.0, 0.0), centre);
        assert_eq!(plane.axes(3).0, [-1.0, 0.0, 1.0]);
    }
}
