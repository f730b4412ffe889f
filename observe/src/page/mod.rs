//! The page: recordings and summaries in a browser, served or as one file.
//!
//! | module | what |
//! |---|---|
//! | [`Source`] | the folders that are shown, and whether they have changed |
//! | `data` | what the page gets: an index in JSON, and columns of bytes behind it |
//! | `run`, `labels`, `kernels`, `memory` | from the records of a run to these columns |
//! | `summaries` | from what a training noted to these columns |
//! | `texts` | logs, saved graphs and manifests of dumps, as they are |
//! | `lane` | slices of a row in blocks, so that the page decodes only what it draws |
//! | `html` | the page itself, from the files in `web/` |
//! | [`Server`] | the page over HTTP, for this machine |
//!
//! A panel is a file in `web/panels/` that adds itself to the list of panels, and a line in `html`.

mod columns;
mod data;
mod host;
mod html;
mod kernels;
mod labels;
mod lane;
mod memory;
mod request;
mod run;
mod server;
mod source;
mod summaries;
mod texts;

pub use data::Data;
pub use server::Server;
pub use source::Source;
