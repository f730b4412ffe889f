//! What platforms and devices there are. Asking initialises none.

use crate::api::{Api, DeviceId, PlatformId, check, codes, info, text};
use thalweg_hal::tables::Kind;
use thalweg_hal::{Error, Result};

/// A device as its driver describes it.
#[derive(Clone, Debug)]
pub(crate) struct DeviceInfo {
    /// The driver's handle; valid for the life of the process.
    pub(crate) id: DeviceId,
    /// Name of its platform.
    pub(crate) platform: String,
    /// Name.
    pub(crate) name: String,
    /// Vendor.
    pub(crate) vendor: String,
    /// Version of the driver.
    pub(crate) driver: String,
    /// Version of OpenCL that it speaks, with the vendor's addition.
    pub(crate) version: String,
    /// `bus:device.function` of a PCI device; empty if unknown.
    pub(crate) pci: String,
    /// What kind of device.
    pub(crate) kind: Kind,
    /// Compute units.
    pub(crate) compute_units: u32,
    /// Bytes of its memory.
    pub(crate) memory: u64,
    /// Most bytes of one buffer.
    pub(crate) max_buffer: u64,
    /// Bytes of its cache of global memory.
    pub(crate) cache: u64,
    /// Most work-items of a group.
    pub(crate) max_group: u32,
    /// Most bytes of a kernel's arguments.
    pub(crate) argument_bytes: u32,
    /// Whether buffers start at multiples of 64 bytes at least.
    pub(crate) aligned: bool,
    /// Whether it computes in f64.
    pub fp64: bool,
    /// Whether it divides f32 with correct rounding when asked to.
    pub(crate) rounds_division: bool,
    /// Whether it uses the host's memory.
    pub(crate) unified: bool,
    /// Whether queues have priorities.
    pub(crate) priorities: bool,
    /// Whether the driver tells how much memory is free.
    pub(crate) tells_free: bool,
    /// Whether it can be used now.
    pub(crate) available: bool,
    /// Whether there is a compiler.
    pub(crate) compiler: bool,
}

impl DeviceInfo {
    /// Whether the driver is PoCL, whose compiler writes to the process's standard error.
    pub(crate) fn is_pocl(&self) -> bool {
        self.platform == "Portable Computing Language"
    }

    /// Whether buffers can be the host's own memory, used in place: the device is the host's processor.
    pub(crate) fn is_host(&self) -> bool {
        self.kind == Kind::Cpu && self.unified
    }

    /// `3.0` of `OpenCL 3.0 …`.
    pub(crate) fn opencl_version(&self) -> (u32, u32) {
        let number = self.version.split(' ').nth(1).unwrap_or("");
        let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Why the device cannot be opened, if it cannot.
    pub(crate) fn check(&self) -> Result<()> {
        let why = if !self.available {
            "its driver says that it is not available".into()
        } else if !self.compiler {
            "its driver has no compiler for OpenCL C".into()
        } else if self.opencl_version() < (1, 2) {
            format!("it speaks `{}`, and version 1.2 is needed", self.version)
        } else if !self.aligned {
            "its buffers are aligned to less than 64 bytes".into()
        } else {
            return Ok(());
        };
        Err(Error::unavailable(format!(
            "{} on {}: {why}",
            self.name, self.platform
        )))
    }
}

/// Every device of every platform.
///
/// # Errors
/// [`Unavailable`](thalweg_hal::Status::Unavailable) and what is missing when there is none.
pub(crate) fn discover(api: &Api) -> Result<Vec<DeviceInfo>> {
    let platforms = platforms(api)?;
    let (mut devices, mut empty) = (Vec::new(), Vec::new());
    for platform in platforms {
        let name = platform_text(api, platform, codes::PLATFORM_NAME)?;
        let ids = match device_ids(api, platform) {
            Ok(ids) => ids,
            Err(error) => {
                empty.push(format!("{name} has no device ({error})"));
                continue;
            }
        };
        for id in ids {
            devices.push(describe(api, id, &name)?);
        }
    }
    if devices.is_empty() {
        return Err(Error::unavailable(format!(
            "no OpenCL device: {}",
            empty.join("; ")
        )));
    }
    Ok(devices)
}

/// Names and versions of all platforms.
pub(crate) fn versions(api: &Api) -> Result<String> {
    let describe = |platform| {
        let name = platform_text(api, platform, codes::PLATFORM_NAME)?;
        Ok(format!(
            "{name}, {}",
            platform_text(api, platform, codes::PLATFORM_VERSION)?
        ))
    };
    let texts: Result<Vec<_>> = platforms(api)?.into_iter().map(describe).collect();
    Ok(texts?.join("; "))
}

fn platforms(api: &Api) -> Result<Vec<PlatformId>> {
    let mut count = 0;
    // SAFETY: no platforms are asked for, only their number.
    let code = unsafe { (api.get_platform_ids)(0, std::ptr::null_mut(), &raw mut count) };
    if code == codes::PLATFORM_NOT_FOUND || (code == codes::SUCCESS && count == 0) {
        return Err(Error::unavailable(
            "the OpenCL loader knows no driver; install the one of your device (vendors register in /etc/OpenCL/vendors, \
             or where OCL_ICD_VENDORS points)",
        ));
    }
    let unavailable = |error: Error| Error::unavailable(error.message);
    check("clGetPlatformIDs", code).map_err(unavailable)?;
    let mut ids = vec![PlatformId(std::ptr::null_mut()); count as usize];
    // SAFETY: room for `count` platforms.
    let code = unsafe { (api.get_platform_ids)(count, ids.as_mut_ptr(), std::ptr::null_mut()) };
    check("clGetPlatformIDs", code).map_err(unavailable)?;
    Ok(ids)
}

fn platform_text(api: &Api, platform: PlatformId, key: u32) -> Result<String> {
    info("clGetPlatformInfo", |len, out, got| {
        // SAFETY: the buffer has the length that is passed.
        unsafe { (api.get_platform_info)(platform, key, len, out.cast(), got) }
    })
    .map(|bytes| text(&bytes))
}

fn device_ids(api: &Api, platform: PlatformId) -> Result<Vec<DeviceId>> {
    let mut count = 0;
    let all = codes::DEVICE_TYPE_ALL;
    // SAFETY: no devices are asked for, only their number.
    let code = unsafe { (api.get_device_ids)(platform, all, 0, std::ptr::null_mut(), &raw mut count) };
    check("clGetDeviceIDs", code)?;
    let mut ids = vec![DeviceId(std::ptr::null_mut()); count as usize];
    // SAFETY: room for `count` devices.
    let code = unsafe { (api.get_device_ids)(platform, all, count, ids.as_mut_ptr(), std::ptr::null_mut()) };
    check("clGetDeviceIDs", code)?;
    match ids.is_empty() {
        true => Err(crate::api::error("clGetDeviceIDs", codes::DEVICE_NOT_FOUND)),
        false => Ok(ids),
    }
}

/// One value of a device.
pub(crate) fn device_info(api: &Api, id: DeviceId, key: u32) -> Result<Vec<u8>> {
    info("clGetDeviceInfo", |len, out, got| {
        // SAFETY: the buffer has the length that is passed.
        unsafe { (api.get_device_info)(id, key, len, out.cast(), got) }
    })
}

/// A number of a device, of whatever width; 0 where the driver does not know the key.
pub(crate) fn number(api: &Api, id: DeviceId, key: u32) -> u64 {
    let bytes = device_info(api, id, key).unwrap_or_default();
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(wide)
}

#[cfg(target_endian = "big")]
compile_error!("numbers of a device are read as little-endian");

fn describe(api: &Api, id: DeviceId, platform: &str) -> Result<DeviceInfo> {
    let string = |key| device_info(api, id, key).map(|bytes| text(&bytes));
    let number = |key| number(api, id, key);
    let extensions = string(codes::DEVICE_EXTENSIONS)?;
    let has = |name: &str| extensions.split(' ').any(|extension| extension == name);
    let kind = match number(codes::DEVICE_TYPE) {
        flags if flags & codes::DEVICE_TYPE_CPU != 0 => Kind::Cpu,
        flags if flags & codes::DEVICE_TYPE_GPU != 0 => Kind::Gpu,
        _ => Kind::Accelerator,
    };
    let pci = if has("cl_khr_pci_bus_info") {
        pci(&device_info(api, id, codes::DEVICE_PCI_BUS_INFO_KHR).unwrap_or_default())
    } else {
        String::new()
    };
    Ok(DeviceInfo {
        id,
        platform: platform.to_owned(),
        name: string(codes::DEVICE_NAME)?,
        vendor: string(codes::DEVICE_VENDOR)?,
        driver: string(codes::DRIVER_VERSION)?,
        version: string(codes::DEVICE_VERSION)?,
        pci,
        kind,
        compute_units: number(codes::DEVICE_MAX_COMPUTE_UNITS) as u32,
        memory: number(codes::DEVICE_GLOBAL_MEM_SIZE),
        max_buffer: number(codes::DEVICE_MAX_MEM_ALLOC_SIZE),
        cache: number(codes::DEVICE_GLOBAL_MEM_CACHE_SIZE),
        max_group: number(codes::DEVICE_MAX_WORK_GROUP_SIZE) as u32,
        argument_bytes: number(codes::DEVICE_MAX_PARAMETER_SIZE) as u32,
        aligned: number(codes::DEVICE_MEM_BASE_ADDR_ALIGN) >= 64 * 8,
        fp64: number(codes::DEVICE_DOUBLE_FP_CONFIG) != 0,
        rounds_division: number(codes::DEVICE_SINGLE_FP_CONFIG) & codes::FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
            != 0,
        unified: number(codes::DEVICE_HOST_UNIFIED_MEMORY) != 0,
        priorities: has("cl_khr_priority_hints"),
        tells_free: has("cl_amd_device_attribute_query"),
        available: number(codes::DEVICE_AVAILABLE) != 0,
        compiler: number(codes::DEVICE_COMPILER_AVAILABLE) != 0,
    })
}

/// `domain:bus:device.function` of the extension's four 32-bit numbers.
fn pci(bytes: &[u8]) -> String {
    let (words, []) = bytes.as_chunks::<4>() else {
        return String::new();
    };
    match words
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect::<Vec<_>>()[..]
    {
        [domain, bus, device, function] => format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::pci;

    #[test]
    fn pci_addresses() {
        let bytes: Vec<u8> = [1_u32, 0x65, 3, 7]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(pci(&bytes), "0001:65:03.7");
        assert_eq!(pci(&bytes[..12]), "");
        assert_eq!(pci(&[]), "");
    }
}
