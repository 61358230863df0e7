"""Fill the disk under a service: it refuses with a sentence, lives, and loses nothing that it acknowledged.

python tests/stress/serve_full_disk.py FOLDER    (on a small file system of its own, such as
mount -t tmpfs -o size=6m tmpfs FOLDER)
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import InputError
from undrift.online import Table
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(4)]
FIRST = 50


def start(model):
    command = [sys.executable, "-m", "undrift", "serve", str(model), "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, Client(json.loads(server.stdout.readline())["url"], timeout=60.0)


def send(client, rng, asked, told):
    """Ask and tell once, and note what was acknowledged."""
    Z = rng.normal(size=(50, len(NAMES)))
    answers = client.predict([dict(zip(NAMES, z, strict=True)) for z in Z.tolist()])
    asked += [(one.id, z) for one, z in zip(answers, Z, strict=True)]
    labels = {one.id: float(z.sum()) for one, z in zip(answers, Z, strict=True)}
    client.learn(labels)
    told += labels.items()


def main(folder):
    rng, asked, told = np.random.default_rng(0), [], []
    path, ballast = folder / "model.undrift", [folder / "ballast 1", folder / "ballast 2"]
    model, Z = ud.OnlineRegressor(speed="light"), rng.normal(size=(FIRST, len(NAMES)))
    model.play(Table(NAMES, Z), Z.sum(axis=1))
    model.save(path)
    for one in ballast:
        one.write_bytes(bytes(1 << 20))
    server, client = start(path)
    refused = 0
    try:
        for _ in range(2000):
            try:
                send(client, rng, asked, told)
            except InputError as error:
                if "refused (507)" not in str(error):
                    raise
                assert client.status()["rounds"] == FIRST + len(told)
                refused += 1
                if refused == 20:
                    ballast[0].unlink()
                if refused == 40:
                    break
        assert refused, "the disk was never full; give a smaller one"
        server.kill()
        server.wait()
        ballast[1].unlink()
        server.stdout.close()
        server, client = start(path)
        assert client.status()["rounds"] == FIRST + len(told)
        assert client.learn(dict(told[-100:])) == 0
        print(f"{len(told):,} labels acknowledged, {refused} requests refused, none lost, none twice")
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
