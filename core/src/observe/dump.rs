//! Values in files.

use crate::context::Context;
use crate::dump::DumpOptions;
use crate::dump::dumper::Dumper;
use crate::error::Result;
use crate::exec::values::{self, Begun};
use crate::record::calls;
use std::fmt;
use std::sync::Arc;

/// Values are written until it is dropped: see [`Context::dump`].
#[must_use = "values are dumped until this is dropped"]
pub struct Dump {
    dumper: Arc<Dumper>,
    begun: Option<Begun>,
}

impl Dump {
    /// Ends an iteration. Where [`Model::train`] or steps of [`span`] do that, it is not needed. Calls of ops are counted from 1 again.
    ///
    /// [`Model::train`]: https://docs.rs/thalweg-nn
    /// [`span`]: super::span
    pub fn step(&self) {
        self.dumper.step();
        calls::restart();
    }

    /// Ends the dump, which dropping it does too.
    ///
    /// # Errors
    /// The first that happened since its begin: a file that could not be written, an entry of `kernels` that no call is like.
    pub fn finish(mut self) -> Result<()> {
        self.begun = None;
        Ok(self.dumper.finish()?)
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.begun = None;
        // What went wrong is in the log.
        let _ = self.dumper.finish();
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dump")
    }
}

impl Context {
    /// Writes the values that `options` ask for into files, whenever this context computes them, until the result is dropped. No bit
    /// of any result changes. Without a change of the code, `THALWEG_DUMP_CONFIG` names a file in JSON with the same options.
    ///
    /// A folder holds an iteration of a device. Its `manifest.json` is written last: with it the folder is whole.
    ///
    /// ```
    /// use thalweg::observe::{self, DumpOptions};
    /// use thalweg::{Context, Tensor, interchange::npy};
    /// # let path = std::env::temp_dir().join(format!("thalweg-doc-dump-{}", std::process::id()));
    /// let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 4.0], 2, &cx);
    /// let dump = cx.dump(&DumpOptions::to(path.to_str().unwrap()))?;
    /// observe::restart_calls();
    /// x.sqrt().to_vec::<f32>()?;
    /// dump.finish()?;
    /// let folder = path.join("Net/device_0/iteration_0");
    /// let file = folder.join("Default--sqrt-op1_output_0_shape_2_Float32_DefaultFormat.npy");
    /// assert_eq!(npy::read(file, &cx)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// An option that is not allowed; a folder that cannot be made. A file that cannot be written later is told in the log, ends the
    /// dump, and is the error of [`Dump::finish`]. The program goes on with the same bits.
    pub fn dump(&self, options: &DumpOptions) -> Result<Dump> {
        options.check()?;
        let dumper = Arc::new(Dumper::new(options)?);
        Ok(Dump {
            begun: Some(values::begin_dump(self, &dumper)),
            dumper,
        })
    }
}
