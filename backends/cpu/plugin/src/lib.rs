//! The CPU backend as a plugin: the same code that is embedded, behind the C entry function.

thalweg_hal::note! { name: "cpu", kind: "cpu" }
thalweg_hal::export_backend!(thalweg_backend_cpu::CpuBackend);
