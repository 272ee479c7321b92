"""The image and the cluster of compose.yaml: their structure, and a study on them with Docker."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from helpers.studies import invoke, write_study

ROOT = Path(__file__).parents[1]
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]

STUDY = """\
steps = 50
runs = 2
grid = {alpha = [0.1], ratio = [1.0]}
[[problem]]
name = "two_state"
[[rule]]
name = "GES"
lam = 0.5
"""


def why_no_docker():
    """Return the reason why containers cannot be started, if there is one."""
    if shutil.which("docker") is None:
        return "needs Docker"
    for words in ("info", "compose version"):
        if subprocess.run(["docker", *words.split()], capture_output=True, check=False).returncode:
            return f"docker {words} fails"
    return ""


def test_two_workers_wait_for_the_scheduler_they_are_given():
    worker = SERVICES["worker"]
    assert worker["deploy"]["replicas"] == 2
    assert set(worker["depends_on"]) <= set(SERVICES)
    assert worker["command"][0] == "tcp://scheduler:8786"
    assert "localhost:8786" in SERVICES["scheduler"]["healthcheck"]["test"][-1]


def test_the_image_runs_the_quickstart_and_can_run_the_tests():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    assert stages == [("python:3.12-slim", "base"), ("base", "test"), ("base", "")]
    assert text.endswith('ENTRYPOINT ["saddleback"]\nCMD ["quickstart"]\n')
    assert 'CMD ["make", "test"]' in text
    installed = re.search(r"apt-get install .*recommends (.*) \\$", text, re.MULTILINE)[1].split()
    assert {"chromium", "libatomic1", "make"} <= set(installed)
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert container["build"]["target"] in dict(map(reversed, stages))


@pytest.mark.cluster
def test_a_study_runs_on_the_cluster(tmp_path):
    reason = why_no_docker()  # asked here, since it starts processes
    if reason:
        pytest.skip(reason)
    compose = ["docker", "compose", "--project-directory", str(tmp_path), "--file", "compose.yaml"]
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8").replace("build: .", f"build: {ROOT}")
    (tmp_path / "compose.yaml").write_text(text, encoding="utf-8")
    study = write_study(tmp_path, STUDY)

    def run(*words):
        environment = os.environ | {"UID": str(os.getuid())}
        subprocess.run([*compose, *words], cwd=tmp_path, env=environment, check=True)

    try:
        run("up", "--build", "--detach", "--wait")
        run("run", "--rm", "saddleback", "sweep", "study.toml", "--dask", "tcp://scheduler:8786")
    finally:
        run("down", "--volumes")
    assert invoke("sweep", study, "--out", tmp_path / "local", "--quiet").exit_code == 0
    manifests = [
        json.loads((tmp_path / name / "manifest.json").read_bytes())
        for name in ("results/study", "local")
    ]
    assert manifests[0]["hash"] == manifests[1]["hash"]
    shards = [sorted((tmp_path / name / "shards").iterdir()) for name in ("results/study", "local")]
    assert [path.name for path in shards[0]] == [path.name for path in shards[1]]
