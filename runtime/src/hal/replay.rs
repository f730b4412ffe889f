//! The tables of a backend for replays of captures.

use super::backend::Backend;
use thalweg_layers::replay::Tables;

impl Backend {
    /// The tables, for a [`Player`](thalweg_layers::replay::Player) of captured calls. A replay opens devices of its own.
    ///
    /// # Errors
    /// A required table is missing.
    pub fn replay_tables(&self) -> thalweg_hal::Result<Tables> {
        // SAFETY: whoever made the backend has vouched for its tables.
        unsafe { Tables::new(self.api()) }
    }
}
