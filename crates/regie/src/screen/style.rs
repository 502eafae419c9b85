//! The few colours, by what they mean. `anstream` takes them out where nobody would see them.

use anstyle::{AnsiColor, Style};

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

pub(crate) fn dim(text: &str) -> String {
    paint(Style::new().dimmed(), text)
}

pub(crate) fn bold(text: &str) -> String {
    paint(Style::new().bold(), text)
}

pub(crate) fn ok(text: &str) -> String {
    paint(colour(AnsiColor::Green), text)
}

pub(crate) fn failed(text: &str) -> String {
    paint(colour(AnsiColor::Red), text)
}

pub(crate) fn waiting(text: &str) -> String {
    paint(colour(AnsiColor::Yellow).bold(), text)
}

pub(crate) fn error(text: &str) -> String {
    paint(colour(AnsiColor::Red).bold(), text)
}

pub(crate) fn hint(text: &str) -> String {
    paint(colour(AnsiColor::Cyan), text)
}
