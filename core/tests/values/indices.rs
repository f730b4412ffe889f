//! Indices that their axes do not have.

use thalweg::ops::ClassLossOptions;
use thalweg::{Context, DType, IndexError, Tensor, fori_loop, jit, value_and_grad};

fn cx() -> Context {
    Context::new("cpu").unwrap()
}

/// A table `[4, 2]`, and indices.
fn operands(indices: &[i64], cx: &Context) -> (Tensor, Tensor) {
    let table: Vec<f32> = (0..8).map(|number| number as f32).collect();
    let table = Tensor::from_slice(&table, [4, 2], cx);
    (table, Tensor::from_slice(indices, [indices.len()], cx))
}

fn refused(result: &Tensor) -> IndexError {
    let error = result.to_vec::<f32>().unwrap_err();
    error.index().unwrap_or_else(|| panic!("{error}")).clone()
}

/// A function of a table and indices, which it must refuse when one of them is 9 or -9, also compiled.
type Indexed = fn(&Tensor, &Tensor) -> Tensor;

const OPS: [(&str, Indexed); 12] = [
    ("gather", |table, index| {
        table.t().gather(1, &index.reshape([1, 3]))
    }),
    ("gather", |table, index| {
        table.t().take_along_axis(&index.reshape([1, 3]), 1)
    }),
    ("index_select", |table, index| table.index_select(0, index)),
    ("take", |table, index| table.index((.., 0)).take(index)),
    ("scatter", |table, index| {
        table.t().scatter(1, &index.reshape([1, 3]), 1)
    }),
    ("scatter_add", |table, index| {
        table.t().scatter_add(1, &index.reshape([1, 3]), 1)
    }),
    ("scatter_max", |table, index| {
        table.t().scatter_max(1, &index.reshape([1, 3]), 1)
    }),
    ("index_add", |table, index| {
        table.index_add(0, index, &table.index(..3))
    }),
    ("index_copy", |table, index| {
        table.index_copy(0, index, &table.index(..3))
    }),
    ("embedding", |table, index| table.embedding(index, None)),
    ("one_hot", |table, index| {
        table.sum() + index.one_hot(4).sum().cast(DType::F32)
    }),
    ("cross_entropy", |table, index| {
        table
            .index(..3)
            .matmul(&table.t())
            .cross_entropy(index, ClassLossOptions::new())
    }),
];

#[test]
fn each_op_names_the_first_index_that_is_outside() {
    let cx = cx();
    for (op, run) in OPS {
        for wrong in [9, -9] {
            cx.check_indices(false);
            let (table, inside) = operands(&[0, 3, 1], &cx);
            let (_, outside) = operands(&[0, wrong, 1], &cx);
            let wanted = run(&table, &inside).to_vec::<f32>().unwrap();
            run(&table, &outside).to_vec::<f32>().unwrap();
            cx.check_indices(true);
            let compiled = jit(move |table: &Tensor, index: &Tensor| run(table, index));
            for _ in 0..2 {
                assert_eq!(run(&table, &inside).to_vec::<f32>().unwrap(), wanted, "{op}");
                assert_eq!(
                    compiled.call((&table, &inside)).to_vec::<f32>().unwrap(),
                    wanted,
                    "{op}"
                );
                for result in [run(&table, &outside), compiled.call((&table, &outside))] {
                    let error = refused(&result);
                    assert_eq!((error.op.as_str(), error.value), (op, wrong), "{error}");
                    assert_eq!(
                        (error.at.last(), error.count, error.high),
                        (Some(&1), 1, 4),
                        "{error}"
                    );
                    assert!(
                        error
                            .location
                            .is_some_and(|line| line.file().ends_with("indices.rs")),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn indices_from_the_end_and_classes_that_do_not_count_are_inside() {
    let cx = cx();
    cx.check_indices(true);
    let (table, index) = operands(&[-4, 3, -1], &cx);
    assert_eq!(
        table.index_select(0, &index).to_vec::<f32>().unwrap(),
        [0.0, 1.0, 6.0, 7.0, 6.0, 7.0]
    );
    assert_eq!(refused(&table.embedding(&index, None)).low, 0);
    let (_, classes) = operands(&[1, -100, 0, 1], &cx);
    let loss = table.cross_entropy(&classes, ClassLossOptions::new());
    assert!(loss.item::<f32>().unwrap().is_finite());
    let error = refused(&table.cross_entropy(&classes, ClassLossOptions::new().ignore_index(1)));
    assert_eq!((error.value, error.except, error.high), (-100, Some(1), 2));
    assert!(
        error
            .to_string()
            .contains("index -100 at [1] is outside of 0..2, axis 1, and not 1"),
        "{error}"
    );
}

#[test]
fn it_is_found_in_loops_and_gradients_and_indices_that_were_computed() {
    let cx = cx();
    cx.check_indices(true);
    let (table, index) = operands(&[0, 1, 2], &cx);
    let walk = jit(|table: &Tensor, index: &Tensor| {
        let start = (table.sum() * 0.0, index.clone());
        let (sum, _) = fori_loop(0..8, start, |_, (sum, index)| {
            let rows = table.index_select(0, &index).sum();
            (sum + rows, index + 1)
        });
        sum
    });
    // The third turn reads 4.
    let error = refused(&walk.call((&table, &index)));
    assert_eq!(
        (error.op.as_str(), error.value, error.at.as_slice()),
        ("index_select", 4, [2].as_slice())
    );

    let (_, outside) = operands(&[0, 1, 7], &cx);
    let step = jit(value_and_grad(|table: &Tensor, index: &Tensor| {
        table.embedding(index, None).square().sum()
    }));
    let (_, right) = step.call((&table, &index));
    assert_eq!(right.to_vec::<f32>().unwrap()[..4], [0.0, 2.0, 4.0, 6.0]);
    let (_, wrong) = step.call((&table, &outside));
    assert_eq!(refused(&wrong).value, 7);
    // What came before is as it was, and later calls are right.
    assert_eq!(
        step.call((&table, &index)).1.to_vec::<f32>().unwrap(),
        right.to_vec::<f32>().unwrap()
    );
}
