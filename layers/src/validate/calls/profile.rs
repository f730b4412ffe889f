//! Profiles.

use super::{Here, absent, given};
use crate::forward;
use crate::layer::enter;
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::report::Report;
use thalweg_hal::tables::{Context, ProfileDrainArgs, ProfileKind, ProfileRecord, ProfileTable};

pub(super) const TABLE: ProfileTable = ProfileTable {
    drain,
    ..forward::profile::table::<Validate>()
};

/// What cannot be in a record.
fn wrong(record: &ProfileRecord) -> Option<String> {
    if ProfileKind::from_code(record.kind).is_none() {
        return Some(format!("has the kind {}", record.kind));
    }
    if record.queued_ns > record.start_ns || record.start_ns > record.end_ns {
        return Some(format!(
            "was queued at {}, began at {} and ended at {} ns",
            record.queued_ns, record.start_ns, record.end_ns
        ));
    }
    (record.reserved != 0).then(|| format!("has {} in a reserved field", record.reserved))
}

unsafe extern "C" fn drain(context: Context, args: *const ProfileDrainArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.profile.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.device("drain", given("drain", args)?.device))?;
            let code = (table.drain)(context, args);
            layer.judge(place, "drain", code)?;
            let (written, capacity) = ((*args).written.read(), (*args).capacity);
            if written > capacity {
                let text = format!(
                    "drain: the backend wrote {written} records where {capacity} fit; write what fits"
                );
                return layer.found(Report::plugin(Code::WrongSize, text));
            }
            if written == 0 {
                return Ok(());
            }
            let records = std::slice::from_raw_parts((*args).out, written);
            match records.iter().find_map(wrong) {
                Some(text) => {
                    let text = format!("drain: a record {text}; write times of one clock, in their order");
                    layer.found(Report::plugin(Code::WrongRecord, text))
                }
                None => Ok(()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_cannot_be_are_told() {
        let good = ProfileRecord {
            correlation: 0,
            stream: 1,
            object: 1,
            bytes: 0,
            queued_ns: 5,
            start_ns: 6,
            end_ns: 7,
            packet: 0,
            command: 0,
            row: 0,
            kind: ProfileKind::Launch as u32,
            flags: 0,
            reserved: 0,
        };
        assert_eq!(wrong(&good), None);
        assert!(wrong(&ProfileRecord { start_ns: 8, ..good }).is_some());
        assert!(wrong(&ProfileRecord { queued_ns: 7, ..good }).is_some());
        assert!(wrong(&ProfileRecord { kind: 99, ..good }).is_some());
        assert!(wrong(&ProfileRecord { reserved: 1, ..good }).is_some());
    }
}
