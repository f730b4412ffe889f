use super::*;
use crate::Status;

fn slot(role: Role, access: Access) -> Slot {
    Slot {
        dtype: DType::F32,
        role,
        level: Level::Row,
        access,
        direct: true,
        gathers: false,
    }
}

fn place(offset: u64, bytes: u64, strides: &[i64]) -> Footprint<'_> {
    Footprint {
        base: 1,
        offset,
        bytes,
        strides,
        gather_stride: 0,
        gather_extent: 0,
    }
}

fn signature(outer: usize, slots: Vec<Slot>) -> Signature {
    Signature {
        name: "k".into(),
        outer,
        inner: 0,
        slots,
        scalars: Vec::new(),
    }
}

#[test]
fn spans_stay_inside() {
    let strided = slot(Role::In, Access::Strided);
    let signature = signature(2, vec![strided]);
    let extents = Extents::new(&[3, 4], &signature).unwrap();
    let of = |slot: &Slot, place: &Footprint<'_>| span("k", 0, slot, &extents, place);
    assert_eq!(of(&strided, &place(0, 48, &[4, 1])).unwrap(), Some((0, 48)));
    assert_eq!(of(&strided, &place(44, 48, &[-4, -1])).unwrap(), Some((0, 48)));
    assert_eq!(
        of(&strided, &place(0, 44, &[4, 1])).unwrap_err().status,
        Status::OutOfBounds
    );
    assert_eq!(
        of(&strided, &place(40, 48, &[-4, -1])).unwrap_err().status,
        Status::OutOfBounds
    );
    assert_eq!(
        of(&strided, &place(2, 48, &[0, 0])).unwrap_err().status,
        Status::InvalidArgument
    );
    assert_eq!(
        of(&strided, &place(0, 48, &[1])).unwrap_err().status,
        Status::InvalidArgument
    );
    assert_eq!(
        of(&strided, &place(0, 48, &[])).unwrap_err().status,
        Status::InvalidArgument
    );
    assert!(of(&strided, &place(0, u64::MAX, &[i64::MAX, i64::MAX])).is_err());
    let contiguous = slot(Role::In, Access::Contiguous);
    assert_eq!(of(&contiguous, &place(0, 48, &[])).unwrap(), Some((0, 48)));
    assert!(of(&contiguous, &place(4, 48, &[])).is_err());
    let gather = Slot {
        gathers: true,
        direct: false,
        ..strided
    };
    let at = Footprint {
        gather_stride: 10,
        gather_extent: 3,
        ..place(0, 4 * 32, &[4, 1])
    };
    assert_eq!(of(&gather, &at).unwrap(), Some((0, 128)));
    assert!(
        of(
            &gather,
            &Footprint {
                gather_extent: 4,
                ..at
            }
        )
        .is_err()
    );
    assert_eq!(
        of(
            &gather,
            &Footprint {
                gather_extent: 0,
                ..at
            }
        )
        .unwrap(),
        None
    );
    assert!(Extents::new(&[1 << 40, 1 << 40], &signature).is_err());
    assert!(Extents::new(&[1], &signature).is_err());
}

#[test]
fn scalars_are_values_of_their_dtypes() {
    let signature = Signature {
        scalars: vec![DType::Bool, DType::F16, DType::I64],
        ..signature(0, Vec::new())
    };
    scalars(&signature, &[1, 0xffff, u64::MAX], |_| true).unwrap();
    assert!(scalars(&signature, &[2, 0, 0], |_| true).is_err());
    assert!(scalars(&signature, &[0, 0x1_0000, 0], |_| true).is_err());
    scalars(&signature, &[2, 0, 0], |scalar| scalar != 0).unwrap();
}

#[test]
fn outputs_keep_clear() {
    let slots = vec![
        slot(Role::In, Access::Strided),
        slot(Role::Out, Access::Contiguous),
    ];
    let signature = signature(2, slots.clone());
    let extents = Extents::new(&[3, 4], &signature).unwrap();
    let check = |places: &[Footprint<'_>]| {
        let spans: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(i, p)| span("k", i, &slots[i], &extents, p).unwrap())
            .collect();
        overlaps("k", &slots, &extents, places, &spans)
    };
    check(&[place(0, 96, &[4, 1]), place(48, 96, &[])]).unwrap();
    check(&[place(0, 96, &[4, 1]), place(0, 96, &[])]).unwrap();
    assert!(check(&[place(0, 96, &[1, 3]), place(0, 96, &[])]).is_err());
    assert!(check(&[place(4, 96, &[4, 1]), place(0, 96, &[])]).is_err());
    check(&[
        Footprint {
            base: 2,
            ..place(4, 96, &[4, 1])
        },
        place(0, 96, &[]),
    ])
    .unwrap();
    assert!(folds(&[3, 4], &[0, 1]) && folds(&[3, 4], &[3, 1]) && !folds(&[3, 4], &[-4, 1]));
    assert!(!folds(&[3, 4], &[1, 3]) && !folds(&[1, 4], &[0, 1]));
}
