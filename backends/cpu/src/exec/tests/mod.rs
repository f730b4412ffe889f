mod batches;
mod harness;
mod ops;
mod oracle;
mod random;
mod shapes;
