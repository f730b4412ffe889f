//! What devices there are. Asking initialises the driver and no device.

use crate::api::codes::SUCCESS;
use crate::api::driver::{Attribute, Driver, RawDevice};
use thalweg_hal::{Error, Result};

/// A device as the driver describes it.
#[derive(Clone, Debug)]
pub(crate) struct DeviceInfo {
    /// The driver's handle.
    pub(crate) device: RawDevice,
    /// Name.
    pub(crate) name: String,
    /// `domain:bus:device.function`.
    pub(crate) pci: String,
    /// Universally unique id, `GPU-…`.
    pub(crate) uuid: String,
    /// Compute capability, 90 for 9.0.
    pub(crate) sm: u32,
    /// Multiprocessors.
    pub(crate) multiprocessors: u32,
    /// Threads that a multiprocessor runs at a time.
    pub(crate) threads: u32,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Bytes of the second-level cache, which all multiprocessors share.
    pub(crate) l2: u64,
    /// Bytes of first-level cache of a multiprocessor.
    pub(crate) l1: u64,
    /// Most bytes between two rows of a copy.
    pub(crate) max_pitch: u64,
    /// Whether host and device share memory.
    pub(crate) integrated: bool,
    /// Whether device memory has the same addresses as the host sees.
    pub(crate) unified_addresses: bool,
}

impl DeviceInfo {
    /// Why the device cannot be opened, if it cannot.
    pub(crate) fn check(&self) -> Result<()> {
        // The kernels' language: conversions of bf16 and the barrier-free shuffles that it uses exist from 8.0 on.
        let why = if self.sm < 80 {
            "compute capability 8.0 or later is needed"
        } else if !self.unified_addresses {
            "its driver has no unified addresses"
        } else {
            return Ok(());
        };
        Err(Error::unavailable(format!(
            "{} (compute capability {}.{}): {why}",
            self.name,
            self.sm / 10,
            self.sm % 10
        )))
    }
}

fn check(driver: &Driver, call: &str, code: u32) -> Result<()> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(Error::unavailable(driver.message(call, code)))
}

/// Every device.
///
/// # Errors
/// [`Unavailable`](thalweg_hal::Status::Unavailable) when there is none.
pub(crate) fn discover(driver: &Driver) -> Result<Vec<DeviceInfo>> {
    let mut count = 0;
    // SAFETY: plain call.
    check(driver, "cuDeviceGetCount", unsafe {
        (driver.device_count)(&raw mut count)
    })?;
    if count < 1 {
        return Err(Error::unavailable("the NVIDIA driver knows no device"));
    }
    (0..count).map(|ordinal| describe(driver, ordinal)).collect()
}

fn describe(driver: &Driver, ordinal: i32) -> Result<DeviceInfo> {
    let (mut device, mut memory, mut uuid) = (0, 0, [0; 16]);
    // SAFETY: plain calls with room for what they write.
    unsafe {
        check(
            driver,
            "cuDeviceGet",
            (driver.device_get)(&raw mut device, ordinal),
        )?;
        check(
            driver,
            "cuDeviceTotalMem",
            (driver.device_memory)(&raw mut memory, device),
        )?;
        check(
            driver,
            "cuDeviceGetUuid",
            (driver.device_uuid)(&raw mut uuid, device),
        )?;
    }
    let number = |key: Attribute| {
        let mut value = 0;
        // SAFETY: plain call. A driver that does not know the key says so.
        let code = unsafe { (driver.device_attribute)(&raw mut value, key, device) };
        if code == SUCCESS {
            u64::try_from(value).unwrap_or(0)
        } else {
            0
        }
    };
    let version = |major, minor| number(major) * 10 + number(minor);
    Ok(DeviceInfo {
        device,
        name: text(driver, "cuDeviceGetName", |bytes, len| {
            // SAFETY: room for `len` bytes.
            unsafe { (driver.device_name)(bytes, len, device) }
        })?,
        pci: text(driver, "cuDeviceGetPCIBusId", |bytes, len| {
            // SAFETY: as above.
            unsafe { (driver.device_pci)(bytes, len, device) }
        })?
        .to_lowercase(),
        uuid: uuid_text(&uuid),
        sm: version(
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        ) as u32,
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) as u32,
        threads: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) as u32,
        memory: memory as u64,
        l2: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        l1: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        max_pitch: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        integrated: number(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0,
        unified_addresses: number(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) != 0,
    })
}

fn text(driver: &Driver, call: &str, ask: impl FnOnce(*mut u8, i32) -> u32) -> Result<String> {
    let mut bytes = [0_u8; 256];
    check(driver, call, ask(bytes.as_mut_ptr(), bytes.len() as i32))?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).trim().to_owned())
}

/// `GPU-` and the id as `nvidia-smi` writes it.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex[range].to_owned());
    format!("GPU-{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(
            super::uuid_text(&bytes),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
