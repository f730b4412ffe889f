mod batches;
mod harness;
mod lines;
mod ops;
mod oracle;
mod random;
mod shapes;
