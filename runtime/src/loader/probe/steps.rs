//! What a trial asks a plugin in the child process, as far as the list of its devices: the same as the host asks it later. Then the
//! child exits as the host will.

use super::During;
use super::child::{Lost, Remote};
use super::program::SCRATCH_SIZE;
use std::mem::size_of;
use std::path::Path;
use std::time::Instant;
use thalweg_hal::tables::{
    ABI_VERSION, BackendApi, BackendInfo, DeviceProperties, ENTRY_SYMBOL, HostApi, TableId,
};

/// Devices that are asked what they are.
const MAX_DEVICES: u64 = 16;

/// A plugin that is on trial.
pub(super) struct Steps<'a> {
    pub(super) remote: &'a mut Remote,
    /// Where it is.
    pub(super) during: During,
}

/// What a trial that came to its end found.
pub(super) enum Found {
    Sound,
    /// The system's loader refuses it.
    Refused(String),
    /// What it handed over cannot be used.
    Unsound(String),
}

impl Steps<'_> {
    /// Loads the library at `path`, asks it for its entry, tables and devices, and lets the process exit. The last two may last until
    /// `deadline`.
    pub(super) fn run(&mut self, path: &Path, deadline: Instant) -> Result<Found, Lost> {
        use std::os::unix::ffi::OsStrExt;
        self.keep_together()?;
        let exit = self.prepare_exit()?;
        // Looked for now, because `dlsym` forgets what `dlerror` would say.
        let strnlen = self.remote.symbol(c"strnlen")?;
        let scratch = self.remote.scratch();
        let mut name = path.as_os_str().as_bytes().to_vec();
        name.push(0);
        self.remote.put(scratch, &name)?;
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        let handle = self
            .remote
            .call(self.remote.function("dlopen"), &[scratch, flags as u64])?;
        if handle == 0 {
            let text = self.remote.call(self.remote.function("dlerror"), &[])?;
            let text = self.remote.text(text, strnlen)?;
            let own = format!("{}: ", path.display());
            return Ok(Found::Refused(text.strip_prefix(&own).unwrap_or(&text).into()));
        }
        let found = self.ask(handle, deadline)?;
        if let Found::Sound = found {
            self.during = During::End;
            self.remote.until(deadline);
            self.remote.await_end()?;
            self.remote.call(exit, &[0])?;
        }
        Ok(found)
    }

    /// Makes the program go on when `exit` has run all else, and gives the address of `exit`.
    fn prepare_exit(&mut self) -> Result<u64, Lost> {
        let at_exit = self.remote.symbol(c"__cxa_atexit")?;
        // Those that come last run first.
        let [loaders_end, go_on] = self.remote.last_functions();
        for function in [go_on, loaders_end] {
            self.remote.call(at_exit, &[function, 0, 0])?;
        }
        self.remote.symbol(c"exit")
    }

    /// Asks the library `handle` for its entry, tables and devices.
    fn ask(&mut self, handle: u64, deadline: Instant) -> Result<Found, Lost> {
        self.during = During::Start;
        let scratch = self.remote.scratch();
        let symbol = [ENTRY_SYMBOL.as_bytes(), b"\0"].concat();
        self.remote.put(scratch, &symbol)?;
        match self
            .remote
            .call(self.remote.function("dlsym"), &[handle, scratch])?
        {
            // The host says so too.
            0 => Ok(Found::Sound),
            entry => self.start(entry, deadline),
        }
    }

    /// Refuses `setsid` and `setpgid` to the child and all that it starts, so that they end with its group.
    fn keep_together(&mut self) -> Result<(), Lost> {
        let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let give = (libc::BPF_RET | libc::BPF_K) as u16;
        // The number of the call is the first word of what a filter sees.
        let filter = [
            (load, 0, 0, 0),
            (equal, 1, 0, libc::SYS_setsid as u32),
            (equal, 0, 1, libc::SYS_setpgid as u32),
            (give, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            (give, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let mut bytes = Vec::new();
        for (code, jump, other, word) in filter {
            bytes.extend_from_slice(&u16::to_ne_bytes(code));
            bytes.extend_from_slice(&[jump, other]);
            bytes.extend_from_slice(&u32::to_ne_bytes(word));
        }
        let scratch = self.remote.scratch();
        let program = [filter.len() as u64, scratch].map(u64::to_ne_bytes).concat();
        let place = scratch + bytes.len() as u64;
        self.remote.put(scratch, &bytes)?;
        self.remote.put(place, &program)?;
        let prctl = self.remote.symbol(c"prctl")?;
        // Where the system refuses, a descendant may outlive the trial; that is no reason to refuse the plugin.
        self.remote.call(prctl, &[libc::PR_SET_NO_NEW_PRIVS as u64, 1])?;
        let filtered = u64::from(libc::SECCOMP_MODE_FILTER);
        self.remote
            .call(prctl, &[libc::PR_SET_SECCOMP as u64, filtered, place])?;
        Ok(())
    }

    fn start(&mut self, entry: u64, deadline: Instant) -> Result<Found, Lost> {
        // The host's table lives as long as the process: nothing else is written there.
        let host = self.remote.scratch() + SCRATCH_SIZE - size_of::<HostApi>() as u64;
        let api = self.remote.scratch();
        let [nothing, one, pieces] = self.remote.stubs();
        // As `HostApi`: no level is logged, one thread works, no key is set.
        let table = [
            u64::from(ABI_VERSION),
            0,
            nothing,
            pieces,
            one,
            one,
            nothing,
            nothing,
        ];
        self.remote.put(host, &table.map(u64::to_ne_bytes).concat())?;
        self.remote.put(api, &[0; size_of::<BackendApi>()])?;
        let code = self.remote.call(entry, &[u64::from(ABI_VERSION), host, api])?;
        if code as i32 != 0 {
            return Ok(Found::Sound);
        }
        let [_, context, query] = self.words(api)?;
        if query == 0 {
            return Ok(Found::Unsound("it hands over no function for its tables".into()));
        }
        let mut core = [0; 4];
        let mut device = [0; 7];
        for &id in TableId::ALL {
            let table = self.remote.call(query, &[context, id as u64, 1])?;
            if table == 0 || table % 8 != 0 {
                // The host says so too.
                if id.required() {
                    return Ok(Found::Sound);
                }
                continue;
            }
            let last = table.wrapping_add(8 * (id.functions() as u64 - 1));
            if !(self.can_read(table)? && self.can_read(last)?) {
                let name = id.name();
                return Ok(Found::Unsound(format!(
                    "its {name} table lies outside of its memory"
                )));
            }
            match id {
                TableId::Core => core = self.words(table)?,
                TableId::Device => device = self.words(table)?,
                TableId::Memory
                | TableId::Stream
                | TableId::Event
                | TableId::Kernel
                | TableId::Program
                | TableId::Profile => {}
            }
        }
        if core.contains(&0) || device.contains(&0) {
            return Ok(Found::Sound);
        }
        self.devices(context, core, device[0], deadline)
    }

    fn devices(
        &mut self,
        context: u64,
        [info, count, last_error, _]: [u64; 4],
        properties: u64,
        deadline: Instant,
    ) -> Result<Found, Lost> {
        let out = self.remote.scratch();
        self.remote.put(out, &[0; size_of::<BackendInfo>()])?;
        self.remote.call(info, &[context, out])?;
        self.during = During::Devices;
        self.remote.until(deadline);
        self.remote.put(out, &[0; 8])?;
        if self.remote.call(count, &[context, out])? as i32 != 0 {
            self.remote.call(last_error, &[context, out, 512])?;
            return Ok(Found::Sound);
        }
        let [devices] = self.words(out)?;
        for ordinal in 0..(devices & u64::from(u32::MAX)).min(MAX_DEVICES) {
            self.remote.put(out, &[0; size_of::<DeviceProperties>()])?;
            self.remote.call(properties, &[context, ordinal, out])?;
        }
        Ok(Found::Sound)
    }

    /// Words of the child's memory.
    fn words<const N: usize>(&mut self, address: u64) -> Result<[u64; N], Lost> {
        let mut words = [0; N];
        let mut bytes = vec![0; 8 * N];
        self.remote.get(address, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
        Ok(words)
    }

    /// Whether the child can read a word at `address`, which is a multiple of 8: the kernel reads a set of signals from there before
    /// it refuses to do with it what is no number of anything.
    fn can_read(&mut self, address: u64) -> Result<bool, Lost> {
        let syscall = self.remote.symbol(c"syscall")?;
        let place = self.remote.symbol(c"__errno_location")?;
        let number = libc::SYS_rt_sigprocmask as u64;
        self.remote.call(syscall, &[number, u64::MAX, address, 0, 8])?;
        let place = self.remote.call(place, &[])?;
        let mut error = [0; 4];
        self.remote.get(place, &mut error)?;
        Ok(i32::from_ne_bytes(error) != libc::EFAULT)
    }
}
