//! Equations of Einstein summation.

use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;

/// Name of an axis: a letter, or for the axes of an ellipsis their place from the last, behind the letters.
pub(super) type Label = u8;

const ELLIPSIS: Label = 128;

/// An equation for operands of given shapes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Equation {
    /// The labels of each operand's axes.
    pub(super) operands: Vec<Vec<Label>>,
    /// The labels of the output's axes.
    pub(super) output: Vec<Label>,
    /// Extent by label.
    pub(super) extents: Vec<usize>,
}

impl Equation {
    /// Reads `equation` for operands of `shapes`.
    pub(super) fn parse(equation: &str, shapes: &[Shape]) -> Result<Equation, Refusal> {
        let refuse = |what: String| Refusal::new(format!("\"{equation}\": {what}"));
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (&*text, None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() || shapes.is_empty() {
            return Err(refuse(format!(
                "{} operands, {} are given",
                terms.len(),
                shapes.len()
            )));
        }
        let mut extents = vec![1; 256];
        let mut operands = Vec::new();
        let mut dots = 0;
        for (at, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let letters = letters(term, &refuse)?;
            let named = letters.iter().filter(|&&label| label != ELLIPSIS).count();
            let has_dots = named != letters.len();
            if named > shape.len() || (named != shape.len() && !has_dots) {
                return Err(refuse(format!(
                    "operand {at} has {named} axes, {shape} has {}",
                    shape.len()
                )));
            }
            let under = shape.len() - named;
            dots = dots.max(under);
            let labels: Vec<Label> = letters
                .into_iter()
                .flat_map(|label| match label {
                    ELLIPSIS => ellipsis(under),
                    label => vec![label],
                })
                .collect();
            for (&label, &extent) in labels.iter().zip(shape.iter()) {
                let known = &mut extents[usize::from(label)];
                match (*known, extent) {
                    (1, _) => *known = extent,
                    (_, 1) => {}
                    (known, extent) if known == extent => {}
                    (known, extent) => {
                        let name = name(label);
                        return Err(refuse(format!(
                            "{name} is {known} and, in operand {at}, {extent}"
                        )));
                    }
                }
            }
            operands.push(labels);
        }
        let output = match right {
            Some(right) => {
                let mut output = Vec::new();
                for label in letters(right, &refuse)? {
                    match label {
                        ELLIPSIS => output.extend(ellipsis(dots)),
                        label => output.push(label),
                    }
                }
                output
            }
            None => implicit(&operands, dots),
        };
        for (at, label) in output.iter().enumerate() {
            if output[..at].contains(label) {
                return Err(refuse(format!("{} is twice in the output", name(*label))));
            }
            if !operands.iter().flatten().any(|own| own == label) {
                return Err(refuse(format!("{} of the output is in no operand", name(*label))));
            }
        }
        Ok(Equation {
            operands,
            output,
            extents,
        })
    }
}

fn letters(term: &str, refuse: &impl Fn(String) -> Refusal) -> Result<Vec<Label>, Refusal> {
    let mut labels = Vec::new();
    let mut rest = term;
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("...") {
            if labels.contains(&ELLIPSIS) {
                return Err(refuse(format!("two ellipses in `{term}`")));
            }
            labels.push(ELLIPSIS);
            rest = behind;
        } else if first.is_ascii_alphabetic() {
            labels.push(first as u8);
            rest = &rest[1..];
        } else {
            return Err(refuse(format!("`{first}` in `{term}` is no letter")));
        }
    }
    Ok(labels)
}

/// The labels of `count` axes under an ellipsis, outermost first.
fn ellipsis(count: usize) -> Vec<Label> {
    (0..count as u8).rev().map(|place| ELLIPSIS + place).collect()
}

fn implicit(operands: &[Vec<Label>], dots: usize) -> Vec<Label> {
    let mut output = ellipsis(dots);
    let occurrences = |label: Label| operands.iter().flatten().filter(|&&own| own == label).count();
    output.extend((b'A'..=b'z').filter(|&label| label.is_ascii_alphabetic() && occurrences(label) == 1));
    output
}

fn name(label: Label) -> String {
    match label {
        ELLIPSIS.. => format!("axis -{} of the ellipsis", label - ELLIPSIS + 1),
        label => format!("`{}`", char::from(label)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(equation: &str, shapes: &[&[usize]]) -> Result<Equation, Refusal> {
        let shapes: Vec<Shape> = shapes.iter().map(|extents| Shape::of(extents)).collect();
        Equation::parse(equation, &shapes)
    }

    #[test]
    fn implicit_outputs_are_sorted() {
        let output = |equation, shapes: &[&[usize]]| parse(equation, shapes).map(|parsed| parsed.output).ok();
        assert_eq!(output("ij,jk", &[&[2, 3], &[3, 4]]), Some(b"ik".to_vec()));
        assert_eq!(output("ba", &[&[2, 3]]), Some(b"ab".to_vec()));
        assert_eq!(output("aB", &[&[2, 3]]), Some(b"Ba".to_vec()));
        assert_eq!(output("ii", &[&[2, 2]]), Some(vec![]));
        assert_eq!(
            output("i...,...j", &[&[2, 5], &[7, 5, 3]]),
            Some(vec![129, 128, b'i', b'j'])
        );
    }

    #[test]
    fn wrong_equations_are_refused_with_the_reason() {
        let message =
            |equation, shapes: &[&[usize]]| parse(equation, shapes).map_err(|refusal| refusal.message);
        for (equation, shapes, part) in [
            ("ij,jk", &[&[2, 3][..]][..], "2 operands, 1 are given"),
            ("ij", &[&[2][..]], "operand 0 has 2 axes, [2] has 1"),
            ("ij,jk", &[&[2, 3], &[4, 5]], "`j` is 3 and, in operand 1, 4"),
            ("i->j", &[&[2]], "`j` of the output is in no operand"),
            ("i->ii", &[&[2]], "`i` is twice in the output"),
            ("i1", &[&[2, 2]], "`1` in `i1` is no letter"),
            ("......", &[&[2]], "two ellipses in `......`"),
            ("é", &[&[2]], "`é` in `é` is no letter"),
        ] {
            let found = message(equation, shapes);
            assert_eq!(found, Err(format!("\"{equation}\": {part}")));
        }
    }
}
