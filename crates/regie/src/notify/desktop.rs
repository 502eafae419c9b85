//! The desktop's own notifications, through `notify-send` and the session's D-Bus. A machine without
//! them is no error: the doctor says so, once.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use control::notify::Notification;
use tokio::process::Command;

/// The program that speaks to the desktop.
const PROGRAM: &str = "notify-send";
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(5);

/// What keeps this process from reaching a desktop.
pub(crate) fn missing() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.is_absolute() && dir.join(PROGRAM).is_file()) {
        return Some("`notify-send` is not on the PATH (on Debian: libnotify-bin)");
    }
    let named = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|value| !value.is_empty());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let bus = runtime.is_some_and(|dir| Path::new(&dir).join("bus").exists());
    (!named && !bus).then_some("there is no D-Bus session: nobody is signed in to a desktop")
}

pub(super) async fn tell(notification: &Notification) -> Result<(), String> {
    if let Some(what) = missing() {
        return Err(what.into());
    }
    #[expect(clippy::disallowed_methods, reason = "the owner's own desktop, with words of Regie's alone")]
    let mut command = Command::new(PROGRAM);
    let body = format!("{}\n{}", escaped(&notification.goal), escaped(&notification.body));
    let urgency = if notification.event == "gate" { "critical" } else { "normal" };
    command
        .args(["--app-name=Regie", "--urgency", urgency, "--"])
        .arg(&notification.title)
        .arg(body)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(WITHIN, command.status()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("`{PROGRAM}` ended with {status}")),
        Ok(Err(error)) => Err(format!("`{PROGRAM}` cannot be started: {error}")),
        Err(_) => Err(format!("`{PROGRAM}` took more than {} s", WITHIN.as_secs())),
    }
}

/// The body is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
