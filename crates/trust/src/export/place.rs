//! What a path is for. Paths are compared in small letters: on some systems they are the same.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::kind::Kind;

/// A row: what is named so, or lies in such a folder, is of this kind.
struct Place {
    kind: Kind,
    why: &'static str,
    /// Names of files, with spaces between.
    names: &'static str,
    /// How names of files end.
    ends: &'static str,
    /// Folders anywhere in the path; with a slash in it, such a path.
    dirs: &'static str,
}

/// What git calls by itself when it lies among its hooks.
const HOOKS: &str = "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update \
    proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc \
    post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist \
    p4-post-changelist p4-pre-submit";

/// The rows, in the order in which they are asked.
const PLACES: &[Place] = &[
    Place {
        kind: Kind::Hook,
        why: "git or a hook runner executes it at commits and checkouts",
        names: ".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.yml \
                lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml \
                lefthook-local.yml .huskyrc .huskyrc.json .huskyrc.js .lintstagedrc .lintstagedrc.json \
                .lintstagedrc.yaml .lintstagedrc.js lint-staged.config.js .overcommit.yml \
                .simple-git-hooks.json simple-git-hooks.json .simple-git-hooks.js captainhook.json \
                grumphp.yml",
        ends: "",
        dirs: ".husky .githooks .git-hooks .lefthook .hooks githooks git-hooks",
    },
    Place {
        kind: Kind::Agent,
        why: "agents obey it, or get tools from it",
        names: "agents.md agent.md agents.override.md claude.md claude.local.md gemini.md qwen.md \
                skill.md copilot-instructions.md .mcp.json mcp.json .cursorrules .windsurfrules \
                .clinerules .roorules .roomodes .rules .goosehints .aider.conf.yml \
                .aider.model.settings.yml .aiderignore .cursorignore opencode.json opencode.jsonc \
                crush.json .crush.json warp.md",
        ends: ".mdc .prompt.md .instructions.md .chatmode.md .agent.md",
        dirs: ".claude .claude-plugin .codex .cursor .aider .gemini .opencode .windsurf .cline \
                .clinerules .roo .continue .goose .agents .agent .amp .kiro .qwen .junie .augment .crush \
                .trae .amazonq .factory .github/instructions .github/prompts .github/agents \
                .github/chatmodes .github/skills",
    },
    Place {
        kind: Kind::Editor,
        why: "an editor or debugger obeys it when the folder is opened",
        names: ".vimrc .nvimrc .nvim.lua .exrc .lvimrc .local.vimrc .dir-locals.el .dir-locals-2.el \
                .ycm_extra_conf.py .gdbinit .lldbinit .devcontainer.json .gitpod.yml .gitpod.dockerfile \
                .idx .replit replit.nix .tmux.conf .tmuxinator.yml",
        ends: ".code-workspace .sublime-project .sublime-workspace .iml",
        dirs: ".vscode .vscode-server .idea .run .fleet .zed .vim .nvim .nova .vs .theia .emacs.d \
                .devcontainer .idx",
    },
    Place {
        kind: Kind::Shell,
        why: "a shell or version manager obeys it in this folder",
        names: ".envrc .direnvrc direnv.toml .tool-versions .mise.toml mise.toml mise.local.toml \
                .mise.local.toml .rtx.toml .asdfrc .sdkmanrc .nvmrc .node-version .python-version \
                .ruby-version .java-version .go-version .terraform-version rust-toolchain \
                rust-toolchain.toml .bashrc .bash_profile .bash_login .bash_logout .bash_aliases \
                .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .inputrc \
                .autoenv .autoenv.zsh .env.fish config.fish .gitconfig .curlrc .wgetrc .netrc \
                .pam_environment .xprofile .xinitrc .psqlrc .irbrc .pryrc .pythonrc .rprofile .renviron \
                profile.ps1 microsoft.powershell_profile.ps1 desktop.ini autorun.inf",
        ends: ".desktop .lnk .url",
        dirs: ".direnv .mise .config/mise .config/fish .config/systemd .config/autostart .ssh",
    },
    Place {
        kind: Kind::Regie,
        why: "Regie reads it: it says what later missions are held to",
        names: "regie.toml regie-policy.toml .worktreeinclude",
        ends: "",
        dirs: "",
    },
    Place {
        kind: Kind::Guard,
        why: "it guards who may change what, or says whom to trust",
        names: "codeowners owners allowed_signers authorized_keys known_hosts .gitleaks.toml \
                .gitleaksignore .secrets.baseline .trivyignore .snyk .semgrepignore",
        ends: ".pem .crt .cer .p12 .pfx .jks .keystore .gpg .asc",
        dirs: ".well-known",
    },
    Place {
        kind: Kind::Ci,
        why: "a build or deployment server runs it, with its secrets",
        names: ".gitlab-ci.yml .gitlab-ci.yaml .drone.yml .drone.jsonnet .drone.star .woodpecker.yml \
                .woodpecker.yaml .travis.yml appveyor.yml .appveyor.yml bitbucket-pipelines.yml \
                .cirrus.yml .cirrus.star cloudbuild.yaml cloudbuild.yml buildspec.yml buildspec.yaml \
                appspec.yml wercker.yml .build.yml codefresh.yml bors.toml .mergify.yml renovate.json \
                renovate.json5 .renovaterc .renovaterc.json action.yml action.yaml .goreleaser.yml \
                .goreleaser.yaml .releaserc .releaserc.json release-please-config.json netlify.toml \
                vercel.json fly.toml render.yaml wrangler.toml wrangler.jsonc procfile skaffold.yaml \
                .readthedocs.yml .readthedocs.yaml",
        ends: ".gitlab-ci.yml .gitlab-ci.yaml",
        dirs: ".github .gitlab .gitea .forgejo .circleci .buildkite .woodpecker .drone .semaphore \
                .azure-pipelines azure-pipelines .azuredevops .tekton .teamcity .jenkins .builds \
                .harness .ci",
    },
    Place {
        kind: Kind::Submodule,
        why: "it says what is fetched from which other repository",
        names: ".gitmodules",
        ends: "",
        dirs: "",
    },
    Place {
        kind: Kind::Attributes,
        why: "git reads, compares, merges and hides files by it",
        names: ".gitattributes .lfsconfig",
        ends: "",
        dirs: "",
    },
    Place {
        kind: Kind::Package,
        why: "a package manager or interpreter runs it, or fetches what it says",
        names: ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js pnpm-workspace.yaml \
                .pnp.cjs .pnp.loader.mjs bunfig.toml .bunfig.toml lerna.json conftest.py \
                sitecustomize.py usercustomize.py pytest.ini pip.conf pip.ini .pypirc .condarc pipfile \
                uv.toml environment.yml environment.yaml go.work .gemrc gemfile gems.rb nuget.config \
                paket.dependencies cpanfile packages.config global.json conanfile.py conanfile.txt \
                vcpkg.json rebar.config deps.edn pubspec.yaml podfile cartfile brewfile",
        ends: ".pth .gemspec .podspec .rockspec",
        dirs: ".yarn .cargo .bundle .mvn gradle/wrapper .dotnet .config/dotnet-tools",
    },
    Place {
        kind: Kind::Build,
        why: "a build, a test runner or a container is made by it",
        names: "makefile gnumakefile bsdmakefile build.rs setup.py setup.cfg manifest.in cmakelists.txt \
                cmakepresets.json cmakeuserpresets.json meson.build meson_options.txt pom.xml gradlew \
                gradlew.bat gradle.properties mvnw mvnw.cmd build.xml build.sbt build.sc build.mill \
                vagrantfile docker-bake.hcl justfile .justfile taskfile.yml taskfile.yaml rakefile \
                gruntfile.js gulpfile.js gulpfile.mjs noxfile.py tox.ini fabfile.py tasks.py dodo.py \
                manage.py wscript sconstruct sconscript build.zig build.zig.zon package.swift \
                build.bazel workspace workspace.bazel module.bazel .bazelrc .bazelversion buck \
                .buckconfig tiltfile earthfile project.clj mix.exs setup.hs stack.yaml configure \
                configure.ac configure.in autogen.sh bootstrap.sh install.sh magefile.go premake5.lua \
                xmake.lua config.guess config.sub ltmain.sh turbo.json nx.json deno.jsonc .babelrc \
                .swcrc .eslintrc .eslintrc.json playbook.yml ansible.cfg",
        ends: ".mk .mak .cmake .gradle .gradle.kts .bzl .nix .dockerfile .csproj .fsproj .vbproj \
                .vcxproj .props .targets .sln .pbxproj .xcconfig .tf .hcl .service .timer",
        dirs: ".gradle buildsrc .docker",
    },
    Place {
        kind: Kind::Environment,
        why: "installed or compiled code: it runs in the place of what its source says",
        names: "pyvenv.cfg",
        ends: ".pyc .pyo .pyd .jar .war .ear .class .whl .egg .gem .crate .nupkg .node .wasm .so .dll \
                .dylib .exe .com .scr .msi .deb .rpm .apk .appimage .o .a .obj .lib .ko .dex .rlib \
                .rmeta .vsix .xpi .crx",
        dirs: "venv .venv virtualenv .virtualenv node_modules site-packages dist-packages .tox .nox \
                bower_components jspm_packages __pycache__ __pypackages__ .eggs .terraform",
    },
];

/// Names that go on after a dot or a hyphen, as `Dockerfile.dev`.
const BEGINNINGS: [(&str, Kind); 8] = [
    ("dockerfile", Kind::Build),
    ("containerfile", Kind::Build),
    ("docker-compose", Kind::Build),
    ("compose", Kind::Build),
    ("makefile", Kind::Build),
    ("jenkinsfile", Kind::Ci),
    ("azure-pipelines", Kind::Ci),
    ("requirements", Kind::Package),
];

/// Endings of what is read by people.
const PROSE: [&str; 5] = [".md", ".rst", ".html", ".adoc", ".png"];

/// The rows by what is looked up.
struct Index {
    names: HashMap<&'static str, usize>,
    dirs: HashMap<&'static str, usize>,
    /// Those with a slash in them.
    paths: Vec<(String, usize)>,
    ends: Vec<(&'static str, usize)>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index =
        Index { names: HashMap::new(), dirs: HashMap::new(), paths: Vec::new(), ends: Vec::new() };
    for (row, place) in PLACES.iter().enumerate() {
        for name in words(place.names) {
            index.names.entry(name).or_insert(row);
        }
        for dir in words(place.dirs) {
            match dir.contains('/') {
                true => index.paths.push((format!("/{dir}/"), row)),
                false => {
                    index.dirs.entry(dir).or_insert(row);
                }
            }
        }
        index.ends.extend(words(place.ends).map(|end| (end, row)));
    }
    index
});

/// What a path is for; `None` for all that is only content.
pub(super) fn place(path: &str) -> Option<(Kind, &'static str)> {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let dir = path.get(..path.len().saturating_sub(name.len())).unwrap_or_default();
    if words(HOOKS).any(|hook| hook == name) && (name != "update" || format!("/{dir}").ends_with("/hooks/")) {
        return Some((Kind::Hook, "git executes it where it lies among the hooks"));
    }
    let index = &*INDEX;
    let inside = format!("/{dir}");
    let by_name = index.names.get(name).copied();
    let by_dir = dir.split('/').filter_map(|part| index.dirs.get(part).copied()).min();
    let by_path = index.paths.iter().filter(|(known, _)| inside.contains(known)).map(|(_, row)| *row).min();
    let by_end = index.ends.iter().filter(|(end, _)| name.ends_with(end)).map(|(_, row)| *row).min();
    let row = [by_name, by_dir, by_path, by_end].into_iter().flatten().min();
    let found = row.and_then(|row| PLACES.get(row)).map(|place| (place.kind, place.why));
    found.or_else(|| begins(name)).or_else(|| executed_config(name)).or_else(|| rooted(&path))
}

fn words(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(' ').filter(|word| !word.is_empty())
}

fn begins(name: &str) -> Option<(Kind, &'static str)> {
    let (kind, rest) =
        BEGINNINGS.iter().find_map(|(begin, kind)| Some((*kind, name.strip_prefix(begin)?)))?;
    let goes_on =
        rest.is_empty() || rest.starts_with(['.', '-']) || kind == Kind::Package && rest.starts_with('_');
    let is_prose = PROSE.iter().any(|end| rest.ends_with(end));
    let is_data = match kind {
        Kind::Package => rest.ends_with(".txt") || rest.ends_with(".in"),
        _ if name.starts_with("compose") || name.starts_with("docker-compose") => {
            rest.ends_with(".yml") || rest.ends_with(".yaml")
        }
        _ => true,
    };
    let why = match kind {
        Kind::Ci => "a build server runs it, with its secrets",
        Kind::Package => "a package manager fetches what it says",
        _ => "a build or a container is made by it",
    };
    (goes_on && is_data && !is_prose).then_some((kind, why))
}

/// `vite.config.ts`, `.eslintrc.cjs`: programs that tools run to learn how they are configured.
fn executed_config(name: &str) -> Option<(Kind, &'static str)> {
    let (stem, end) = name.rsplit_once('.')?;
    let is_program = ["js", "cjs", "mjs", "ts", "cts", "mts"].contains(&end);
    let is_config = stem.ends_with(".config") || (stem.starts_with('.') && stem.ends_with("rc"));
    (is_program && is_config).then_some((Kind::Build, "a tool executes it to learn its settings"))
}

/// What means something at the root only.
fn rooted(path: &str) -> Option<(Kind, &'static str)> {
    match path.split('/').next() {
        Some("vendor" | "third_party" | "third-party") if path.contains('/') => {
            Some((Kind::Environment, "vendored code: it is built in the place of what its registry has"))
        }
        Some("build") if path == "build" => Some((Kind::Build, "a build is made by it")),
        _ => None,
    }
}

/// Whether what lies here checks the rest.
pub(super) fn is_test(path: &str) -> bool {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let is_named = stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || name.contains(".test.")
        || name.contains(".spec.");
    is_named || path.split('/').any(|part| ["test", "tests", "__tests__", "spec", "e2e"].contains(&part))
}

/// Whether files that are not to be published are named here.
pub(super) fn is_ignore_list(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    [".gitignore", ".dockerignore", ".npmignore", ".vscodeignore", ".gcloudignore"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_place_has_its_twin_that_is_only_content() {
        use Kind as K;
        #[rustfmt::skip]
        let table: &[(Kind, &[&str], &[&str])] = &[
            (K::Hook, &[".husky/pre-push", "hooks/pre-commit", ".githooks/x", "a/.pre-commit-config.yaml", "lefthook.yml", "hooks/update", ".Husky/_/h"],
                &["src/hooks/useThing.ts", "update", "docs/pre-commit.md", "husky/dog.py"]),
            (K::Agent, &["AGENTS.md", "sub/CLAUDE.md", ".claude/settings.json", ".mcp.json", ".cursor/rules/a.mdc", "skills/x/SKILL.md", ".codex/config.toml", "GEMINI.md", ".aider.conf.yml", "opencode.json", ".github/copilot-instructions.md"],
                &["docs/agents/list.md", "src/agent.rs", "claude.py", "cursor/x.rs"]),
            (K::Editor, &[".vscode/tasks.json", ".idea/workspace.xml", ".nvim.lua", ".exrc", ".vim/ftplugin/c.vim", "x.code-workspace", ".devcontainer/devcontainer.json"],
                &[".editorconfig", "vscode/readme.md", "src/vim.rs"]),
            (K::Shell, &[".envrc", ".tool-versions", ".mise.toml", ".bashrc", "a/.zshenv", ".direnv/x", "rust-toolchain.toml"],
                &["docs/bashrc.md", ".env.example", "profile.rs"]),
            (K::Regie, &["regie.toml", "sub/Regie.toml", "regie-policy.toml", ".worktreeinclude"], &["docs/regie.md"]),
            (K::Ci, &[".github/workflows/ci.yml", ".github/actions/a/index.js", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "Jenkinsfile.prod", "azure-pipelines.yml", ".buildkite/p.yml", ".drone.yml", ".woodpecker/a.yml", "x/action.yml"],
                &["github/workflows/ci.yml", "docs/jenkinsfile.md", "src/drone.rs", "jenkins.txt"]),
            (K::Build, &["Makefile", "sub/makefile", "build.rs", "setup.py", "CMakeLists.txt", "app/build.gradle.kts", "pom.xml", "Dockerfile", "Dockerfile.dev", "docker-compose.yml", "compose.prod.yaml", "Vagrantfile", "flake.nix", "justfile", "rules.mk", "vite.config.ts", ".eslintrc.cjs", "build"],
                &["docs/Makefile.md", "src/build.md", "compose.rs", "builds/x.rs", "src/dockerfile_parser.rs", "composer.rs", "config.ts"]),
            (K::Package, &[".npmrc", "tests/conftest.py", ".cargo/config.toml", "pip.conf", "x.pth", ".yarn/releases/yarn.cjs", "requirements.txt", "requirements-dev.txt", "sitecustomize.py", "gradle/wrapper/gradle-wrapper.properties"],
                &["docs/npmrc.md", "requirements.md", "src/cargo.rs", "requirements_text.py"]),
            (K::Submodule, &[".gitmodules"], &["docs/gitmodules.md"]),
            (K::Attributes, &[".gitattributes", "sub/.gitattributes"], &["src/attributes.rs"]),
            (K::Environment, &[".venv/bin/activate", "venv/x", "node_modules/a/i.js", "lib/x.so", "a.jar", "m.wasm", "vendor/a/b.go", "pyvenv.cfg", "a/__pycache__/b.pyc"],
                &["src/vendor/list.rs", "environment.rs", "src/venv.rs", "a.json"]),
            (K::Guard, &["CODEOWNERS", "docs/CODEOWNERS", "ca.pem", "allowed_signers"], &["owners.md", "pem.rs"]),
        ];
        for (kind, reported, benign) in table {
            for path in *reported {
                assert_eq!(place(path).map(|(kind, _)| kind), Some(*kind), "{path}");
            }
            for path in *benign {
                assert_eq!(place(path), None, "{path}");
            }
        }
    }

    #[test]
    fn tests_and_ignore_lists_are_known() {
        for path in ["tests/a.rs", "src/a_test.go", "a.spec.ts", "test_a.py", "src/__tests__/a.js"] {
            assert!(is_test(path), "{path}");
        }
        for path in ["src/contest.rs", "attest/a.rs", "latest.md"] {
            assert!(!is_test(path), "{path}");
        }
        assert!(is_ignore_list("a/.gitignore") && !is_ignore_list("gitignore"));
    }
}
