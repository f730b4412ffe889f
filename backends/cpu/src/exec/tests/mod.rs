mod batches;
mod coded;
mod harness;
mod lines;
mod ops;
mod oracle;
mod random;
mod shapes;
