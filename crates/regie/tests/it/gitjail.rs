//! Git for the agent: it works as in any checkout, on a repository of its own that nobody else reads.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::world::{World, until};

/// A world whose agent runs these commands, each in a turn of its own, and then says that it has finished.
fn world(commands: impl FnOnce(&Path) -> Vec<String>) -> World {
    let place = tempfile::tempdir().unwrap();
    let commands = commands(&place.path().canonicalize().unwrap());
    let turns = commands.iter().map(|command| {
        let input = json!({ "command": command }).to_string();
        // JSON's escapes are TOML's.
        format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
    });
    let scenario = turns.chain(["[[turn]]\ntext = \"Done.\"\n".to_owned()]).collect::<String>();
    World::at(place, &scenario)
}

/// What the last command before a request said.
fn last_result(request: &Value) -> String {
    let block = &request["messages"].as_array().unwrap().last().unwrap()["content"][0];
    assert_eq!(block["type"], "tool_result", "{block}");
    match &block["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
    }
}

/// Runs the mission to its merge, and gives what each command said.
#[track_caller]
fn served(world: &World) -> Vec<String> {
    let said = world.ask(&["run", "Work with git", "--done", "true", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    world.is_whole();
    world.asked().iter().skip(1).map(last_result).collect()
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// The only run of a world.
fn run(world: &World) -> String {
    world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn what_one_does_in_a_checkout_works() {
    let world = world(|_| {
        [
            "git status --porcelain; git log --format=%s; git tag; git remote; git rev-parse --show-toplevel",
            "sed -i 's/ - / + /' sum.sh && git diff --stat && git commit -qam 'Mend the sum' \
             && git log --format='%an <%ae> %s' -1",
            "git blame -s -L1,1 sum.sh | cut -d' ' -f2-; git show --format=%s --name-only; git grep -n wrong",
            "echo x > note && git stash -qu && test ! -e note && git stash list && git stash pop -q \
             && git status --porcelain && rm note",
            "own=$(git branch --show-current) && git checkout -q -b side HEAD~1 && echo more > more.txt \
             && git add more.txt && git commit -qm More && git rebase -q $own && git checkout -q $own \
             && git merge -q --ff-only side && git branch -D -q side && git log --format=%s",
            "echo again >> more.txt && git commit -qam Again && git rebase -i -q --exec 'test -e sum.sh' main \
             && git revert --no-edit HEAD >/dev/null && git cherry-pick HEAD~1 >/dev/null; git log --format=%s | head -3; \
             git restore --source=main sum.sh && git status --porcelain && git checkout -q sum.sh",
            "git bisect start HEAD main >/dev/null && git bisect run sh -c '! grep -q again more.txt' \
             | grep 'first bad'; git bisect reset 2>/dev/null; git worktree add -q /tmp/w && ls /tmp/w; git gc -q; \
             git fsck 2>&1 | grep -v dangling; git status --porcelain",
            "git push 2>&1 | head -1; git fetch origin 2>&1 | head -1; mv .git x 2>&1; rm -rf .git 2>&1; ls -A .git",
        ]
        .map(str::to_owned)
        .into()
    });
    assert!(world.git(&["tag", "v1"]).status.success());
    let said = served(&world);
    let [status, commit, look, stash, rebase, again, bisect, end] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!(status, "Sample\nv1\n/workspace\n");
    assert!(
        commit.contains("sum.sh | 2 +-") && commit.ends_with("Regie agent <agent@localhost> Mend the sum\n"),
        "{commit}"
    );
    assert!(look.contains("1) echo $(($1 + $2))\nMend the sum\n\nsum.sh\ncheck.sh:1:"), "{look}");
    assert!(stash.starts_with("stash@{0}: WIP on ") && stash.ends_with("\n?? note\n"), "{stash}");
    assert_eq!(rebase, "More\nMend the sum\nSample\n");
    assert!(again.contains("Again\nRevert \"Again\"\nAgain\n M sum.sh\n"), "{again}");
    assert!(bisect.contains("is the first bad commit"), "{bisect}");
    assert!(bisect.ends_with("check.sh\nmore.txt\nsum.sh\n"), "{bisect}");
    assert!(
        end.starts_with("fatal: No configured push destination.\nfatal: 'origin' does not appear"),
        "{end}"
    );
    assert!(end.contains("mv: cannot move '.git'") && end.contains("rm: cannot remove '.git'"), "{end}");

    // The host went by the files alone.
    assert_eq!(text(&world.git(&["show", "HEAD:sum.sh"])), "echo $(($1 + $2))");
    assert_eq!(text(&world.git(&["show", "HEAD:more.txt"])), "more\nagain");
    let log = text(&world.git(&["log", "--format=%an %s"]));
    assert!(!log.contains("Mend the sum") && !log.contains("Regie agent"), "{log}");
    let place = world.workspace(&run(&world)).join(".git");
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
}

#[test]
fn what_is_left_there_is_obeyed_in_the_jail_only() {
    let mut ran = None;
    let world = world(|root| {
        let mark = root.join("ran");
        let touch = format!("touch {} /workspace/inside", mark.display());
        ran = Some(mark);
        vec![
            format!(
                "printf '#!/bin/sh\\n{touch}\\n' > .git/evil && chmod +x .git/evil && mkdir -p .git/hooks \
                 && for hook in pre-commit post-checkout post-merge reference-transaction post-index-change; do \
                 cp .git/evil .git/hooks/$hook; done; git config core.fsmonitor '{touch}; false'; \
                 git config filter.x.clean '{touch}; cat'; git config diff.external '{touch}; true'; \
                 echo '* filter=x diff=x' > .git/info/attributes; ln -s / .git/root"
            ),
            "git status >/dev/null 2>&1; test -e inside && rm inside && echo obeyed; echo mended > sum.sh"
                .to_owned(),
        ]
    });
    let said = served(&world);
    assert_eq!(said.last().unwrap(), "obeyed\n", "the attempt itself does nothing");
    let run = run(&world);
    for args in [&["diff", &run][..], &["gc", "--older-than", "0s"], &["fork", &run, "Go on", "--at", "1"]] {
        world.ask(args);
    }
    let touched = |path: &Path| path.exists();
    assert!(!touched(&ran.unwrap()), "the host has run what an agent left");
    assert_eq!(text(&world.git(&["show", "HEAD:sum.sh"])), "mended");
}

#[test]
fn no_one_elses_objects_are_there() {
    let world = world(|_| {
        vec![
            "git cat-file --batch-all-objects --batch-check='%(objecttype)' | sort | uniq -c | tr -s ' '; \
             git stash list; git for-each-ref --format='%(refname:short)' refs/heads | head -1; \
             touch /.regie/git/head 2>/dev/null || echo read-only; ls /.regie/git/objects"
                .to_owned(),
        ]
    });
    for args in [
        &["checkout", "-q", "-b", "private"][..],
        &["commit", "-q", "--allow-empty", "-m", "Private"],
        &["checkout", "-q", "main"],
    ] {
        assert!(world.git(args).status.success(), "{args:?}");
    }
    fs::write(world.project().join("sum.sh"), "stashed\n").unwrap();
    assert!(world.git(&["stash"]).status.success());
    let said = served(&world);
    let said = said.first().unwrap();
    assert!(said.starts_with(" 2 blob\n 1 commit\n 1 tree\n"), "{said}");
    assert!(said.ends_with("\nread-only\npack\n"), "{said}");
}

#[test]
fn what_others_merged_is_history_and_no_change_of_the_agents() {
    let scenario = |goal: &str, commands: &[&str]| {
        let turns: String = commands
            .iter()
            .map(|command| {
                format!(
                    "[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n\
                     [[scenario.turn]]\ntext = \"Done.\"\n"
                )
            })
            .collect();
        format!("[[scenario]]\nmatch = {goal:?}\n{turns}")
    };
    let world = World::new(
        &[
            scenario("the first", &["echo theirs > sum.sh; echo new > new.txt"]),
            scenario(
                "the second",
                &[
                    "echo mine > sum.sh; git commit -qam Mine; echo left > left.txt",
                    "git status --porcelain > /tmp/s; git log --format=%s >> /tmp/s; cat /tmp/s; echo both > sum.sh; \
                     git diff --stat | tail -1",
                ],
            ),
        ]
        .concat(),
    );
    let runs = ["Do the first thing", "Do the second thing"].map(|goal| {
        let said = world.ask(&["run", goal, "--done", "true"]);
        assert_eq!(said.code, Some(3), "{said:?}");
        run(&world)
    });
    for run in runs {
        until("the run ends", || {
            let gates = world.ask(&["gate", "list", "--json"]).json();
            for gate in gates.as_array().unwrap().iter().filter(|gate| gate["run"] == *run) {
                world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]);
            }
            world.ask(&["show", &run, "--json"]).out.contains("\"ended\"")
        });
    }
    let asked = world.asked();
    let said = last_result(&asked[asked.len() - 1]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"Merge what others have changed"), "{said}");
    for subject in ["Mine", "Sample"] {
        assert!(lines.contains(&subject), "{said}");
    }
    assert!(lines.last().unwrap().contains("1 file changed"), "{said}");
    assert_eq!(text(&world.git(&["show", "HEAD:sum.sh"])), "both");
}
