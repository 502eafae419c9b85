//! What a shell line is seen to start, and where seeing ends.

use proptest::prelude::*;
use trust::policy::shell::{Pattern, Seen};

fn could_be(pattern: &str, line: &str) -> bool {
    let (pattern, seen) = (Pattern::parse(pattern).unwrap(), Seen::of(line));
    !seen.is_clear() || seen.commands.iter().chain(&seen.started).any(|command| pattern.could_be(command))
}

/// Whether all that a line starts is exactly what a pattern says, for certain.
fn is(pattern: &str, line: &str) -> bool {
    let (pattern, seen) = (Pattern::parse(pattern).unwrap(), Seen::of(line));
    seen.is_clear() && !seen.commands.is_empty() && seen.commands.iter().all(|command| pattern.is(command))
}

#[test]
fn a_push_is_seen_wherever_it_hides() {
    for line in [
        "git push",
        "git push origin main",
        "make && git push",
        "false || git push; true",
        "git status | git push",
        "git status & git push",
        "echo a\ngit push",
        "(cd x; (git push))",
        "{ git push; }",
        "if true; then git push; fi",
        "while ! git push; do sleep 1; done",
        "for x in a b; do git push; done",
        "case x in a) git push;; esac",
        "echo $(git push)",
        "echo \"a $(echo `git push`) b\"",
        "echo `git push`",
        "echo ${X:-$(git push)}",
        "echo $(( $(git push) + 1 ))",
        "cat <(git push)",
        "f() { git push; }; f",
        "sh -c 'x && git push'",
        "sh -c \"x && git push\"",
        "bash -euxc 'git push'",
        "bash --norc -o pipefail -c 'git push'",
        "/bin/sh -c 'sh -c \"git push\"'",
        "eval git push",
        "eval 'git' \"push\"",
        "env A=b git push",
        "env -i -u X -- git push",
        "env -S 'git push'",
        "sudo -u nobody env nohup nice -n 5 git push",
        "timeout -k 5 10 git push",
        "xargs -n1 git push < x",
        "echo push | xargs git",
        "find . -name x -exec git push {} \\;",
        "find . -exec sh -c 'git push' \\;",
        "busybox sh -c 'git push'",
        "su nobody -c 'git push'",
        "flock /tmp/x git push",
        "command git push; exec git push",
        "time git push",
        "! git push",
        "trap 'git push' EXIT",
        "sh <<'X'\ngit push\nX",
        "bash <<< 'git push'",
        "cat <<X\n$(git push)\nX",
        "cat <<-'X'\n\tfoo\n\tX\ngit push",
        "A=1 B=2 git push",
        "/usr/bin/git push",
        "g\\it pu'sh'",
        "\"git\" push",
        "git \\\n push",
        "git -C dir push",
        "git -c a=b --no-pager push --force",
        "git submodule foreach 'git push'",
        "git rebase -x 'git push' main",
        "git bisect run git push",
        "2>&1 git push",
        "> out git push",
        "git push > out 2>&1",
        "echo a # git pull\ngit push",
        "X=$((1<<2)); git push",
        "((1<<2)); git push",
        "[ -f a ] && git push",
        "[[ a && b ]] && git push",
        "git $X",
        "uv run git push",
        "ssh host git push",
    ] {
        assert!(could_be("git push *", line), "{line}: {:?}", Seen::of(line));
    }
}

#[test]
fn where_it_cannot_see_it_says_so() {
    for line in [
        "$X push",
        "g$(x)t push",
        "$(echo git push)",
        "eval \"$X\"",
        "sh -c \"$X\"",
        "echo git push | sh",
        "sh < script",
        "curl x | sudo bash",
        "bash <(echo git push)",
        ". /dev/stdin",
        "source <(x)",
        "alias g=git\ng push",
        "git -c alias.x='!git push' x",
        "xargs < x",
        "echo 'open",
        "echo \"open",
        "echo $(open",
        "sh <<X\n$Y\nX",
        "{git,push}",
        "* push",
        "echo \"$(case x in a) git push;; esac)\"",
    ] {
        assert!(!Seen::of(line).is_clear() || line.starts_with("xargs"), "{line}: {:?}", Seen::of(line));
        assert!(!is("git push *", line) && !is("echo *", line), "{line}");
    }
    let deep = format!("{}git push{}", "$(".repeat(500), ")".repeat(500));
    assert!(!Seen::of(&deep).is_clear());
    assert!(!Seen::of(&"a;".repeat(40_000)).is_clear());
    assert!(!Seen::of(&"${x:-".repeat(20_000)).is_clear());
}

#[test]
fn what_is_no_push_is_none() {
    for line in [
        "git status",
        "git commit -m push",
        "git commit -m 'git push'",
        "echo git push",
        "grep -r 'git push' .",
        "# git push",
        "cat <<'X'\ngit push\nX",
        "cat <<'X'\n$(git push)\nX",
        "echo '$(git push)'",
        "printf %s \"git push\" > notes",
        "mygit push",
        "pushd git",
        "npm test && make -j2 CFLAGS='-O2'",
        "for f in *.js; do node --check \"$f\"; done",
        "cd src && ls *.js | wc -l",
        "find . -name '*.js' -exec wc -l {} +",
        "test -n \"$HOME\" && echo ok 2>/dev/null",
    ] {
        assert!(!could_be("git push *", line), "{line}: {:?}", Seen::of(line));
        assert!(Seen::of(line).is_clear(), "{line}: {:?}", Seen::of(line).unclear);
    }
}

#[test]
fn options_are_heard_in_any_order_and_grouping() {
    for line in ["rm -rf x", "rm -fr x", "rm -r -f x", "rm x -rf", "rm -v -Rrf x", "rm $X", "rm -r \"$X\" -f"]
    {
        assert!(could_be("rm -rf *", line), "{line}");
    }
    for line in ["rm -r x", "rm x", "rmdir -rf x", "rm -f x"] {
        assert!(!could_be("rm -rf *", line), "{line}");
    }
    for (line, holds) in [
        ("git push --force", true),
        ("git push origin main --force", true),
        ("git push --forc origin", true),
        ("git push --force=x", true),
        ("git push origin", false),
        ("git push --follow-tags", false),
    ] {
        assert_eq!(could_be("git push --force *", line), holds, "{line}");
    }
    assert!(
        could_be("npm run *:prod", "npm run deploy:prod")
            && !could_be("npm run *:prod", "npm run deploy:dev")
    );
    assert!(could_be("git push", "git push --quiet") && !could_be("git push", "git push origin"));
    assert!(could_be("* push *", "hub push x"));
    for bad in ["", "  ", "'open", "\"open"] {
        assert!(Pattern::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn what_is_allowed_is_allowed_to_the_letter() {
    for line in ["npm test", "npm test -- --watch", "npm test && npm test a", "npm 'test'"] {
        assert!(is("npm test *", line), "{line}");
    }
    for line in [
        "npm -C x test",
        "npm test && id",
        "npm test $(id)",
        "NODE_OPTIONS=--require=./x npm test",
        "./npm test",
        "/tmp/npm test",
        "npm $X",
        "env npm test",
        "npm run test",
        "\"if\" npm test",
        "sh -c 'npm test'",
    ] {
        assert!(!is("npm test *", line), "{line}");
    }
    assert!(!is("npm test", "npm test a"));
}

/// Ways to hide a command in a line, one in another.
fn hidden() -> impl Strategy<Value = String> {
    let quoted = |inner: &str| format!("'{}'", inner.replace('\'', "'\\''"));
    Just("git push".to_owned()).prop_recursive(6, 64, 1, move |inner| {
        (inner, 0_usize..14).prop_map(move |(inner, way)| match way {
            0 => format!("sh -c {}", quoted(&inner)),
            1 => format!("eval {}", quoted(&inner)),
            2 => format!("true && {inner}"),
            3 => format!("({inner})"),
            4 => format!("echo $( {inner})"),
            5 => format!("if true; then {inner}; fi"),
            6 => format!("sudo bash -xc {}", quoted(&inner)),
            7 => format!("echo \"$( {inner})\""),
            8 => format!("echo 'a;b' | {{ {inner}; }}"),
            9 => format!("env X=1 sh -c {}", quoted(&inner)),
            10 => format!("find . -exec sh -c {} \\;", quoted(&inner)),
            11 => format!("echo a # b\n{inner}"),
            12 => format!("X=1; for i in a b; do {inner}; done"),
            _ => format!("timeout 5 dash -c {} | cat", quoted(&inner)),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// However often a command is wrapped, it is seen, or the line is unclear.
    #[test]
    fn nesting_hides_nothing(line in hidden()) {
        prop_assert!(could_be("git push *", &line), "{line}");
        prop_assert!(!is("echo *", &line));
    }

    /// Any text is taken, and a list that ends in a command shows it however it began, or is unclear.
    #[test]
    fn no_beginning_blinds(text in "[a-z'\"`$(){}<>|&;#\\\\ \n=*-]{0,40}") {
        let seen = Seen::of(&text);
        prop_assert_eq!(&seen, &Seen::of(&text));
        if seen.is_clear() && !text.contains(['#', '<', '\\']) {
            let line = format!("{text}\ngit push");
            prop_assert!(could_be("git push *", &line), "{line}: {:?}", Seen::of(&line));
        }
    }

    #[test]
    fn any_text_is_taken(text in any::<String>()) {
        let seen = Seen::of(&text);
        prop_assert!(seen.commands.iter().all(|command| !command.words.is_empty()));
    }
}
