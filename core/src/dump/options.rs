//! What is dumped, by the names of configurations.

mod keys;
#[cfg(test)]
mod tests;

use super::iterations::Iterations;
use super::kernels::Kernels;
use crate::error::{DumpError, Result};
use crate::options::by_name::{OptionKey, WrongOption, parsed, set_all, wrong};
use keys::{ASYNC, COMMON, E2E, KEYS};
use std::path::Path;

/// Which calls of ops are dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DumpMode {
    /// All: 0.
    #[default]
    All,
    /// Those that `kernels` lists: 1.
    Kernels,
}

/// Which values of a call are dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InputOutput {
    /// What it is given and what it returns: 0.
    #[default]
    Both,
    /// What it is given: 1.
    Inputs,
    /// What it returns: 2.
    Outputs,
}

/// What is written of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SavedData {
    /// Its elements: `tensor`.
    #[default]
    Tensor,
    /// Its figures: `statistic`.
    Statistic,
    /// Both: `full`.
    Full,
}

/// A figure of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Figure {
    /// The least finite element.
    Min,
    /// The greatest finite element.
    Max,
    /// The mean of the finite elements.
    Mean,
    /// The square root of the sum of the squares of the finite elements.
    L2,
    /// How many elements are NaN.
    Nan,
    /// How many elements are infinite.
    Inf,
    /// How many elements are 0.
    Zeros,
    /// How many elements there are.
    Count,
    /// The SHA-256 sum of the elements' bytes, row-major and little-endian.
    Hash,
}

impl Figure {
    /// All of them, as tables have them.
    pub const ALL: [Figure; 9] = [
        Figure::Min,
        Figure::Max,
        Figure::Mean,
        Figure::L2,
        Figure::Nan,
        Figure::Inf,
        Figure::Zeros,
        Figure::Count,
        Figure::Hash,
    ];

    /// Its name in configurations and tables.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Min => "min",
            Figure::Max => "max",
            Figure::Mean => "mean",
            Figure::L2 => "l2",
            Figure::Nan => "nan",
            Figure::Inf => "inf",
            Figure::Zeros => "zeros",
            Figure::Count => "count",
            Figure::Hash => "hash",
        }
    }
}

/// The form of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// As `numpy.save` writes them. Floats of 8 bits, which NumPy lacks, are written as `bin`.
    #[default]
    Npy,
    /// The elements alone, row-major and little-endian.
    Bin,
}

impl FileFormat {
    pub(super) fn extension(self) -> &'static str {
        match self {
            FileFormat::Npy => "npy",
            FileFormat::Bin => "bin",
        }
    }
}

/// Whether calls that overflow are dumped alone: those with finite inputs whose outputs are infinite, NaN or, in floats of 16 and 8
/// bits, the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpDebugMode {
    /// All calls are dumped: 0.
    #[default]
    Off,
    /// Calls with a result that overflows, which is neither of a reduction nor of a scatter: 1.
    Ops,
    /// Calls with a result that overflows, which is that of a reduction, a running sum or a scatter: 2. A softmax, which divides by a
    /// sum, is none.
    Reductions,
    /// Calls with a result that overflows: 3.
    Both,
}

/// What is dumped, and where to. Configurations are JSON: [`DumpOptions::keys`] lists every key.
///
/// ```
/// use thalweg::observe::{DumpOptions, SavedData};
/// let options = DumpOptions::from_json(r#"{
///     "common_dump_settings": {"path": "/tmp/dump", "iteration": "0|3-5", "saved_data": "full"},
///     "e2e_dump_settings": {"enable": true}
/// }"#)?;
/// assert_eq!(options.saved_data, SavedData::Full);
/// let mut same = DumpOptions::to("/tmp/dump");
/// same.iteration = "0|3-5".parse()?;
/// same.saved_data = SavedData::Full;
/// assert_eq!(options, same);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DumpOptions {
    /// Which calls are dumped.
    pub dump_mode: DumpMode,
    /// The folder, an absolute path; `{r}` is the rank.
    pub path: String,
    /// The folder in it.
    pub net_name: String,
    /// Which iterations are dumped.
    pub iteration: Iterations,
    /// Which values of a call are dumped.
    pub input_output: InputOutput,
    /// Names of calls, parts of names of ops, and `name-regex(…)`, for [`DumpMode::Kernels`].
    pub kernels: Vec<String>,
    /// Numbers of the devices whose values are dumped.
    pub support_device: Vec<u32>,
    /// What is written of a value.
    pub saved_data: SavedData,
    /// Which figures are written, where any are.
    pub statistic_category: Vec<Figure>,
    /// The form of files.
    pub file_format: FileFormat,
    /// Whether values are dumped, each before the program goes on.
    pub e2e_enable: bool,
    /// Whether elements are written in row-major order, which they are in any case.
    pub trans_flag: bool,
    /// Whether values are dumped by a thread of their own.
    pub async_enable: bool,
    /// Whether calls that overflow are dumped alone; needs `async_enable`.
    pub op_debug_mode: OpDebugMode,
}

impl Default for DumpOptions {
    fn default() -> DumpOptions {
        DumpOptions {
            dump_mode: DumpMode::All,
            path: String::new(),
            net_name: "Net".to_owned(),
            iteration: Iterations::ALL,
            input_output: InputOutput::Both,
            kernels: Vec::new(),
            support_device: (0..8).collect(),
            saved_data: SavedData::Tensor,
            statistic_category: Figure::ALL.to_vec(),
            file_format: FileFormat::Npy,
            e2e_enable: false,
            trans_flag: true,
            async_enable: false,
            op_debug_mode: OpDebugMode::Off,
        }
    }
}

impl DumpOptions {
    /// All values of all calls into a folder, each before the program goes on.
    pub fn to(path: impl Into<String>) -> DumpOptions {
        DumpOptions {
            path: path.into(),
            e2e_enable: true,
            ..DumpOptions::default()
        }
    }

    /// The options of an object in JSON; keys that it lacks have their defaults.
    ///
    /// # Errors
    /// Text that is no object, a key that does not exist, a value or combination that is not allowed: one line with key, value and
    /// what is allowed.
    pub fn from_json(text: &str) -> Result<DumpOptions> {
        Ok(DumpOptions::read(text)?)
    }

    pub(super) fn read(text: &str) -> Result<DumpOptions, DumpError> {
        let read = || {
            let mut options = DumpOptions::default();
            set_all(KEYS, &mut options, &parsed("the configuration", text)?)?;
            options.judge()?;
            Ok(options)
        };
        read().map_err(option)
    }

    /// Every key, in the order of the documentation.
    pub fn keys() -> impl Iterator<Item = OptionKey> {
        let tables = [KEYS, COMMON, E2E, ASYNC];
        tables.into_iter().flatten().map(|key| key.facts)
    }

    /// Whether the values are allowed.
    ///
    /// # Errors
    /// Values that are not, by themselves or together.
    pub fn check(&self) -> Result<()> {
        self.judge().map_err(refused)
    }

    /// Whether anything is dumped.
    pub(super) fn is_on(&self) -> bool {
        self.e2e_enable || self.async_enable
    }

    /// Whether a thread of its own writes.
    pub(super) fn is_async(&self) -> bool {
        self.async_enable && !self.e2e_enable
    }

    /// Which calls are dumped alone.
    pub(super) fn overflow(&self) -> OpDebugMode {
        match self.is_async() {
            true => self.op_debug_mode,
            false => OpDebugMode::Off,
        }
    }

    /// Whether elements are written.
    pub(super) fn has_elements(&self) -> bool {
        matches!(self.saved_data, SavedData::Tensor | SavedData::Full)
    }

    /// Whether figures are written.
    pub(super) fn has_figures(&self) -> bool {
        matches!(self.saved_data, SavedData::Statistic | SavedData::Full)
    }

    /// Whether this figure is written.
    pub(super) fn has_figure(&self, figure: Figure) -> bool {
        self.has_figures() && self.statistic_category.contains(&figure)
    }

    /// Which calls `kernels` is for.
    pub(super) fn listed(&self) -> Result<Kernels, WrongOption> {
        let listed = Kernels::of(&self.kernels)?;
        match self.dump_mode {
            DumpMode::All => Ok(Kernels::all()),
            DumpMode::Kernels if self.kernels.is_empty() => {
                Err(wrong("dump_mode", 1, "it needs kernels, a list of names"))
            }
            DumpMode::Kernels => Ok(listed),
        }
    }

    fn judge(&self) -> Result<(), WrongOption> {
        self.listed()?;
        if self.op_debug_mode != OpDebugMode::Off && !self.async_enable {
            let value = self.op_debug_mode as u8;
            return Err(wrong(
                "op_debug_mode",
                value,
                "it needs async_dump_settings.enable",
            ));
        }
        let name = &self.net_name;
        if name.is_empty()
            || name.len() > 100
            || name.contains(|c: char| c == '/' || c.is_control())
            || [".", ".."].contains(&&**name)
        {
            return Err(wrong("net_name", name, keys::NET_NAME));
        }
        if self.support_device.is_empty() {
            return Err(wrong(
                "support_device",
                "[]",
                "no device would be dumped; list one or more",
            ));
        }
        if self.statistic_category.is_empty() {
            return Err(wrong(
                "statistic_category",
                "[]",
                "no figure would be written; list one or more",
            ));
        }
        if self.is_on() && !Path::new(&self.path).is_absolute() || self.path.contains(char::is_control) {
            let value = if self.path.is_empty() { "empty" } else { &self.path };
            return Err(wrong("path", value, keys::PATH));
        }
        Ok(())
    }

    /// Tells in the log what has no effect.
    pub(super) fn tell(&self) {
        if self.e2e_enable && self.async_enable {
            tracing::warn!(
                "dump: e2e_dump_settings and async_dump_settings are both on; values are dumped as the first of them says"
            );
        }
        if self.dump_mode == DumpMode::All && !self.kernels.is_empty() {
            tracing::warn!("dump: kernels has no effect while dump_mode is 0");
        }
        if self.saved_data == SavedData::Tensor && self.statistic_category != Figure::ALL {
            tracing::warn!("dump: statistic_category has no effect while saved_data is tensor");
        }
        if !self.trans_flag {
            tracing::warn!(
                "dump: trans_flag is false, which has no effect; devices keep values in row-major order"
            );
        }
    }
}

/// The error of an option.
pub(super) fn refused(wrong: WrongOption) -> crate::Error {
    option(wrong).into()
}

/// As [`refused`], as an error of dumps.
pub(super) fn option(WrongOption { key, value, allowed }: WrongOption) -> DumpError {
    DumpError::Option { key, value, allowed }
}
