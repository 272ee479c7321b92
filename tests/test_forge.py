"""Workflows of the forge, which cannot run here: names, pins and versions beyond their schema."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SESSIONS = set(
    re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.M)
) - {"prepare"}
PYTHONS = re.findall(
    r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)  # fmt: skip


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs():
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield pytest.param(path, name, job, id=f"{path.stem}-{name}")


def test_there_are_workflows_for_tests_docs_benchmarks_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["benchmarks", "docs", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_a_name_events_and_few_permissions(path):
    workflow = read(path)
    assert workflow["name"] == path.stem
    events = workflow[True]  # YAML 1.1 reads "on" so
    assert set(events) <= {"push", "pull_request"}
    assert set(workflow["permissions"]) == {"contents"}


@pytest.mark.parametrize(("path", "name", "job"), [*jobs()])
def test_a_job_runs_somewhere_for_a_limited_time_after_jobs_that_exist(path, name, job):
    keys = {
        "needs", "runs-on", "timeout-minutes", "strategy", "steps", "env", "environment",
        "permissions",
    }  # fmt: skip
    assert set(job) <= keys
    assert job["runs-on"]
    assert 0 < job["timeout-minutes"] <= 60
    assert set(job.get("needs", [])) <= set(read(path)["jobs"])
    matrix = job.get("strategy", {}).get("matrix", {})
    variables = {*matrix, *(key for case in matrix.get("include", []) for key in case)}
    used = re.findall(r"matrix\.(\w+)", yaml.safe_dump(job))
    assert set(used) == variables - {"include"}


@pytest.mark.parametrize(("path", "name", "job"), [*jobs()])
def test_steps_use_pinned_actions_sessions_and_files_that_exist(path, name, job):
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert set(step) <= {"uses", "with", "run", "env"}
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
            line = next(x for x in path.read_text("utf-8").splitlines() if step["uses"] in x)
            assert re.search(r" # v\d+\.\d+\.\d+$", line), "the version of a pin"
            continue
        for session in re.findall(r"--session (\w+)", step["run"]):
            assert session in SESSIONS
        for file in re.findall(r"(?<![\w./])(?:\.ci|\.github|benchmarks)/[\w./-]+", step["run"]):
            assert (ROOT / file).exists(), file


def test_the_tests_cover_every_supported_system_and_python():
    tests = read(GITHUB / "workflows" / "tests.yml")["jobs"]
    matrix = tests["quick"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    cases = {
        case["session"]: case["python"]
        for case in tests["versions"]["strategy"]["matrix"]["include"]
    }
    assert cases.pop("package") in PYTHONS
    assert cases == {"lowest": PYTHONS[0], "newest": PYTHONS[-1]}
    nox = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for session, python in cases.items():
        assert f'python="{python}", default=False)\ndef {session}(' in nox


def test_only_the_release_may_publish():
    release = read(GITHUB / "workflows" / "release.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert release["jobs"]["publish"]["needs"] == ["build"]
    assert not any("secrets." in path.read_text(encoding="utf-8") for path in WORKFLOWS)


def test_dependabot_and_hooks_are_configured():
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}
    for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]:
        for hook in repository["hooks"]:
            assert {"id", "name", "entry", "language"} <= set(hook)
            program = hook["entry"].split()[0]
            assert program in {"ruff", "python", "lint-imports"}


def test_fragments_of_the_changelog_have_a_known_kind():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = {kind["directory"] for kind in settings["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").glob("*"):
        assert path.name == "README.md" or path.suffixes[-2:] in [[f".{k}", ".md"] for k in kinds]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.count(settings["tool"]["towncrier"]["start_string"]) == 1


@pytest.mark.skipif(not shutil.which("git") or os.name == "nt", reason="needs git and bash")
def test_the_documentation_of_a_tag_stays_when_others_are_published(tmp_path, monkeypatch):
    def git(*words, cwd):
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set by hooks
        monkeypatch.delenv(name, raising=False)
    hosted, clone, html = (tmp_path / name for name in ("hosted.git", "clone", "html"))
    git("init", "--quiet", "--bare", str(hosted), cwd=tmp_path)
    git("clone", "--quiet", str(hosted), str(clone), cwd=tmp_path)
    (clone / "README.md").touch()
    git("add", ".", cwd=clone)
    git("commit", "--quiet", "--message", "first", cwd=clone)
    html.mkdir()
    for ref in ("main", "v0.1.0", "v0.2.0", "main"):
        for name in ("index.html", "llms.txt"):
            (html / name).write_text(ref, encoding="utf-8")
        subprocess.run([GITHUB / "publish-docs", html, ref], cwd=clone, check=True)

    def published(path):
        return git("show", f"gh-pages:{path}", cwd=hosted)

    versions = {"0.1.0": "v0.1.0", "0.2.0": "v0.2.0", "stable": "v0.2.0", "latest": "main"}
    for version, ref in versions.items():
        assert published(f"{version}/index.html") == ref
    assert "url=stable/" in published("index.html")
    assert published("llms.txt") == "v0.2.0"
    assert "README.md" not in git("ls-tree", "--name-only", "gh-pages", cwd=hosted)


def anchors(path):
    """Return the places of a page that the forge makes from its headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


SHOWN_BY_THE_FORGE = [
    *ROOT.glob("*.md"), *(ROOT / "changes").glob("README.md"), *GITHUB.rglob("*.md"),
]  # fmt: skip


@pytest.mark.parametrize(
    "page", SHOWN_BY_THE_FORGE, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page):
    """Pages of the documentation are checked where they are built."""
    text = page.read_text(encoding="utf-8")
    for target, _, place in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not place or place in anchors(file), f"{target}#{place}"
