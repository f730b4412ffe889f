//! The device table.

use super::objects::{Instance, Open, Retired, full};
use super::{arg, enter, padded, put, writable};
use crate::backend::{Backend, Device, Properties};
use crate::kit::magazine::Magazine;
use crate::kit::pool::{GRANULARITY, Pool};
use crate::status::{Error, Result};
use crate::tables::{Context, DeviceOptions, DeviceProperties, DeviceTable, PropertyKey};
use parking_lot::Mutex;
use std::sync::Arc;

pub(super) const fn table<B: Backend>() -> DeviceTable {
    DeviceTable {
        properties: properties::<B>,
        is_available: is_available::<B>,
        open: open::<B>,
        close: close::<B>,
        synchronize: synchronize::<B>,
        status: status::<B>,
        query: query::<B>,
    }
}

fn check_ordinal<B: Backend>(instance: &Instance<B>, ordinal: u32) -> Result<()> {
    let count = instance.backend.device_count()?;
    if ordinal < count {
        return Ok(());
    }
    Err(Error::invalid_argument(match count {
        0 => format!("{} has no device", B::NAME),
        1 => format!("{} has no device {ordinal}; its only device is 0", B::NAME),
        _ => format!(
            "{} has no device {ordinal}; its devices are 0..={}",
            B::NAME,
            count - 1
        ),
    }))
}

fn encode(properties: &Properties) -> DeviceProperties {
    DeviceProperties {
        name: padded(&properties.name),
        arch: padded(&properties.arch),
        id: padded(&properties.id),
        kind: properties.kind as u32,
        compute_units: properties.compute_units,
        total_memory: properties.total_memory,
        capabilities: properties
            .capabilities
            .iter()
            .fold(0, |bits, capability| bits | capability.bit()),
        alignment: GRANULARITY,
        priority_low: properties.priorities.0,
        priority_high: properties.priorities.1,
    }
}

unsafe extern "C" fn properties<B: Backend>(
    context: Context,
    ordinal: u32,
    out: *mut DeviceProperties,
) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            check_ordinal(instance, ordinal)?;
            put(out, encode(&instance.backend.properties(ordinal)?))
        })
    }
}

unsafe extern "C" fn is_available<B: Backend>(context: Context, ordinal: u32) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            check_ordinal(instance, ordinal)?;
            instance.backend.is_available(ordinal)
        })
    }
}

unsafe extern "C" fn open<B: Backend>(context: Context, options: *const DeviceOptions, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let DeviceOptions {
                ordinal,
                memory_limit,
                block_size,
                ..
            } = *arg(options)?;
            writable(out)?;
            check_ordinal(instance, ordinal)?;
            let properties = instance.backend.properties(ordinal)?;
            let device = instance.backend.open(ordinal)?;
            let pool = Pool::new(memory_limit, block_size, properties.total_memory);
            let open = Open {
                device,
                properties,
                pool: Mutex::new(pool),
                magazine: Magazine::new(),
                streams: instance.streams(),
                retired: Mutex::new(Retired::new()),
                forms: Mutex::default(),
            };
            put(
                out,
                instance
                    .devices
                    .insert(Arc::new(open))
                    .ok_or_else(|| full("device"))?,
            )
        })
    }
}

unsafe extern "C" fn close<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| instance.close(device)) }
}

unsafe extern "C" fn synchronize<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| instance.device(device)?.synchronize()) }
}

unsafe extern "C" fn status<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| instance.device(device)?.device.status()) }
}

unsafe extern "C" fn query<B: Backend>(context: Context, device: u64, key: u32, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            let key = PropertyKey::from_code(key).ok_or_else(|| {
                Error::unsupported(format!("property key {key} is not known to this version"))
            })?;
            let value = open.device.query(key).ok_or_else(|| {
                Error::unsupported(format!("{:?} does not apply to {}", key, open.properties.name))
            })?;
            put(out, value)
        })
    }
}
