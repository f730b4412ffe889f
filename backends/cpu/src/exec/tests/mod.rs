mod coded;
mod harness;
mod lines;
mod norms;
mod ops;
mod oracle;
mod random;
mod shapes;
