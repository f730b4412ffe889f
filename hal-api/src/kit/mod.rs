//! What a backend needs besides its device: handles, a caching pool, in-order streams with events, error texts,
//! programs, the checks of packets, records of profiles, a cache of compiled code on disk, files of frames. The export layer uses the handles, the pool and programs for every backend;
//! streams and events serve backends whose device has none of its own.

pub mod args;
pub mod cache;
pub mod checks;
pub mod error_slot;
pub mod event;
pub mod file;
pub mod fork;
pub mod frames;
pub mod host_device;
pub mod host_memory;
pub mod lock;
pub mod magazine;
pub mod packet;
pub mod pages;
pub mod pool;
pub mod profile;
pub mod program;
pub mod queue;
pub mod slots;
pub mod source;
pub mod spin;
mod tlsf;
