//! Hyperparameters of a run and the figures to compare runs by, as TensorBoard's page HPARAMS shows them.

use crate::event::{Data, Plugin, Value, seconds};
use crate::tensor::Array;
use crate::wire::Message;

/// The part of TensorBoard.
const PLUGIN: &str = "hparams";
/// Codes of the kinds of hyperparameters.
const TEXT: i64 = 1;
const FLAG: i64 = 2;
const NUMBER: i64 = 3;

/// The value of a hyperparameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It did what it was to do.
    Success,
    /// It was broken off.
    Failure,
}

/// Which hyperparameters there are, and by which figures, named like their scalars, runs are compared.
pub fn experiment(settings: &[(String, Setting)], figures: &[String]) -> Value {
    let info = |(name, setting): &(String, Setting)| {
        let kind = match setting {
            Setting::Text(_) => TEXT,
            Setting::Flag(_) => FLAG,
            Setting::Number(_) => NUMBER,
        };
        Message::new().text(1, name).int(4, kind)
    };
    let figure = |tag: &String| Message::new().message(1, Message::new().text(2, tag));
    let experiment = Message::new()
        .double(4, seconds())
        .each(settings, |message, setting| message.message(5, info(setting)))
        .each(figures, |message, tag| message.message(6, figure(tag)));
    value("experiment", 2, experiment)
}

/// The hyperparameters of the run in this folder.
pub fn session_start(settings: &[(String, Setting)], group: &str) -> Value {
    let entry = |(name, setting): &(String, Setting)| {
        let value = match setting {
            Setting::Number(number) => Message::new().double(2, *number),
            Setting::Text(text) => Message::new().text(3, text),
            Setting::Flag(flag) => Message::new().int(4, i64::from(*flag)),
        };
        Message::new().text(1, name).message(2, value)
    };
    let session = Message::new()
        .each(settings, |message, setting| message.message(1, entry(setting)))
        .text(4, group)
        .double(5, seconds());
    value("session_start_info", 3, session)
}

/// How the run in this folder ended.
pub fn session_end(status: Status) -> Value {
    let code = match status {
        Status::Success => 1,
        Status::Failure => 2,
    };
    let session = Message::new().int(1, code).double(2, seconds());
    value("session_end_info", 4, session)
}

fn value(name: &str, field: u32, data: Message) -> Value {
    Value {
        tag: format!("_hparams_/{name}"),
        plugin: Some(Plugin {
            name: PLUGIN.to_owned(),
            content: Message::new().message(field, data).into_bytes(),
        }),
        data: Data::Tensor(Array {
            shape: vec![1],
            ..Array::scalar(0.0)
        }),
    }
}
