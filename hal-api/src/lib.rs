//! hal-api
