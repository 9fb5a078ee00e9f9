#!/usr/bin/env python3
"""Verifies our signatures with PyPI's model-signing, and model-signing's signatures with the command."""
import argparse
import pathlib
import random
import shutil
import subprocess

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing, verifying

passed = failed = 0


def check(what, good, found=None):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED:", what, found if found is not None else "")


def keys(work):
    forms = {"pkcs8": serialization.PrivateFormat.PKCS8, "sec1": serialization.PrivateFormat.TraditionalOpenSSL}
    for curve in (ec.SECP256R1(), ec.SECP384R1()):
        for name, form in forms.items():
            key = ec.generate_private_key(curve)
            private, public = (work / f"{curve.name}-{name}{end}" for end in (".pem", ".pub"))
            private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
            info = serialization.PublicFormat.SubjectPublicKeyInfo
            public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, info))
            yield private, public


def theirs_accepts(model, signature, public):
    config = verifying.Config().use_elliptic_key_verifier(public_key=public)
    config = config.set_hashing_config(hashing.Config().set_ignored_paths(paths=[signature]))
    try:
        config.verify(model, signature)
        return True
    except Exception:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rng = random.Random(20261124)

    def run(*command):
        return subprocess.run([args.protosplit, *map(str, command)], capture_output=True, text=True)

    def ours_accepts(model, signature, public):
        ran = run("verify", model, "--signature", signature, "--key", public)
        check("an exit status", ran.returncode in (0, 1), ran)
        return ran.returncode == 0

    folder = args.work / "folder"
    shutil.copytree(next(path.parent for path in sorted(args.data.glob("tensorflow/*/saved_model.pb"))), folder)
    chunked = args.work / "model.cpb"
    split = run("split", folder / "saved_model.pb", "-o", chunked, "--max-chunk-size", "1KiB")
    check("split", split.returncode == 0, split)
    lean = args.work / "lean"
    moved = run("externalize", folder, "-o", lean, "--min-size", "256B")
    check("externalize", moved.returncode == 0, moved)
    for number, (private, public) in enumerate(keys(args.work)):
        for model in (folder, chunked, lean):
            what = f"{model.name} with {private.name}"
            ours, theirs = args.work / f"{model.name}-{number}.ours", args.work / f"{model.name}-{number}.theirs"
            signed = run("sign", model, "--key", private, "-o", ours)
            check(f"sign {what}", signed.returncode == 0, signed)
            signing.Config().use_elliptic_key_signer(private_key=private).sign(model, theirs)
            for signature in (ours, theirs):
                check(f"model-signing takes {signature.name}", theirs_accepts(model, signature, public))
                check(f"the command takes {signature.name}", ours_accepts(model, signature, public))
            # Flips one bit in a file of the model, and one in the signature.
            file = rng.choice([path for path in sorted(model.rglob("*")) if path.is_file()] or [model])
            for target in (file, ours):
                original = target.read_bytes()
                for _ in range(10):
                    changed = bytearray(original)
                    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
                    target.write_bytes(changed)
                    check(f"the command refuses a flip in {target.name}", not ours_accepts(model, ours, public))
                    if target is file:
                        check(f"model-signing refuses a flip in {target.name}", not theirs_accepts(model, ours, public))
                target.write_bytes(original)
    print(f"{passed} passed, {failed} failed")
    raise SystemExit(failed > 0)


main()
