#!/usr/bin/env python3
"""Writes the software bill of materials of Debian packages: SPDX 2.3 as JSON, to standard output.

usage: sbom.py PACKAGE.deb...

It names each package with its hash, each file in it with its own, and each package of Debian that they
depend on, with the version and licences that this machine has of it, of which they were built. The time
is that of the newest package, so that the same packages give the same bill. Python's standard library
and dpkg are all that this needs.
"""
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

NAMESPACE = "https://spdx.org/spdxdocs/linnet"
# names of licences in Debian's copyright files that SPDX calls otherwise
LICENCES = {"expat": "MIT", "mit": "MIT", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
            "apache-2.0": "Apache-2.0", "zlib": "Zlib", "public-domain": "LicenseRef-public-domain", "curl": "curl",
            "isc": "ISC", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def digest(path, kind):
    return hashlib.file_digest(path.open("rb"), kind).hexdigest() if hasattr(hashlib, "file_digest") \
        else hashlib.new(kind, path.read_bytes()).hexdigest()


def spdx_id(kind, *parts):
    return f"SPDXRef-{kind}-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part) for part in parts)


def licence_of(package):
    """What the copyright file says in a form that machines read; NOASSERTION otherwise."""
    path = Path("/usr/share/doc") / package.split(":")[0] / "copyright"
    if not path.exists():
        return "NOASSERTION"
    lines = path.read_text(errors="replace").splitlines()
    if not lines or not lines[0].startswith("Format:"):
        return "NOASSERTION"
    names = {line.split(":", 1)[1].strip().lower() for line in lines if line.startswith("License:")}
    known = sorted({LICENCES[name] for name in names if name in LICENCES and not LICENCES[name].startswith("LicenseRef")})
    # a licence that SPDX has no name for here makes the whole one that nobody can write down
    return " AND ".join(known) if known and all(name in LICENCES for name in names) else "NOASSERTION"


def dependencies(field):
    """Of 'libc6 (>= 2.34), libcurl4 | libcurl3' the first of each."""
    return [re.split(r"[ (|]", item.strip())[0] for item in field.split(",") if item.strip()]


def installed(package):
    """Version and home page of a package that this machine has, or None."""
    try:
        line = run("dpkg-query", "-W", "-f", "${Version}\t${Homepage}\n", package).splitlines()[0]
    except (subprocess.CalledProcessError, IndexError):
        return None
    version, home = line.split("\t")
    return (version, home) if version else None


class Bill:
    def __init__(self):
        self.packages, self.files, self.relationships = {}, [], []

    def relate(self, one, kind, other):
        entry = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
        if entry not in self.relationships:
            self.relationships.append(entry)

    def add_file(self, owner, name, path):
        file_id = spdx_id("File", owner, name)
        sha1 = digest(path, "sha1")
        self.files.append({
            "SPDXID": file_id, "fileName": f"./{name}", "licenseConcluded": "NOASSERTION",
            "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": "SHA1", "checksumValue": sha1},
                          {"algorithm": "SHA256", "checksumValue": digest(path, "sha256")}]})
        self.relate(spdx_id("Package", owner), "CONTAINS", file_id)
        return sha1

    def add_dependency(self, owner, package, ours):
        package_id = spdx_id("Package", package)
        if package not in ours and package not in self.packages:
            found = installed(package)
            entry = {"SPDXID": package_id, "name": package, "downloadLocation": "NOASSERTION",
                     "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                     "licenseDeclared": licence_of(package), "copyrightText": "NOASSERTION"}
            if found:
                entry["versionInfo"] = found[0]
                entry["externalRefs"] = [{
                    "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                    "referenceLocator": f"pkg:deb/debian/{package}@{found[0].replace(':', '%3A')}"}]
                if found[1]:
                    entry["homepage"] = found[1]
            self.packages[package] = entry
        self.relate(spdx_id("Package", owner), "DEPENDS_ON", package_id)

    def add_deb(self, deb, ours):
        fields = {key: run("dpkg-deb", "-f", str(deb), key).strip() for key in
                  ("Package", "Version", "Architecture", "Depends", "Pre-Depends", "Recommends")}
        name = fields["Package"]
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-x", str(deb), folder)
            root = Path(folder)
            sums = sorted(self.add_file(name, str(path.relative_to(root)), path) for path in sorted(root.rglob("*"))
                          if path.is_file() and not path.is_symlink())
        # the code that SPDX asks for: of all files' SHA1, sorted and joined
        code = hashlib.sha1("".join(sums).encode()).hexdigest()
        self.packages[name] = {
            "SPDXID": spdx_id("Package", name), "name": name, "versionInfo": fields["Version"],
            "packageFileName": deb.name, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
            "packageVerificationCode": {"packageVerificationCodeValue": code},
            "licenseConcluded": "NOASSERTION", "licenseInfoFromFiles": ["NOASSERTION"],
            "licenseDeclared": "MIT", "copyrightText": "2026 the linnet authors",
            "checksums": [{"algorithm": "SHA256", "checksumValue": digest(deb, "sha256")}],
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/linnet/{name}@{fields['Version']}"
                                                  f"?arch={fields['Architecture']}"}]}
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", spdx_id("Package", name))
        for field in ("Depends", "Pre-Depends", "Recommends"):
            for package in dependencies(fields[field]):
                self.add_dependency(name, package, ours)


def main():
    debs = sorted(Path(name) for name in sys.argv[1:])
    if not debs:
        sys.exit(__doc__.split("\n\n")[1])
    ours = {run("dpkg-deb", "-f", str(deb), "Package").strip() for deb in debs}
    bill = Bill()
    for deb in debs:
        bill.add_deb(deb, ours)
    version = run("dpkg-deb", "-f", str(debs[0]), "Version").strip()
    # of the files within, which a build sets to the time of the changelog
    newest = max(line.split()[3] + "T" + line.split()[4] for deb in debs
                 for line in run("dpkg-deb", "-c", str(deb)).splitlines())
    created = datetime.strptime(newest, "%Y-%m-%dT%H:%M").replace(tzinfo=timezone.utc)
    content = hashlib.sha256("".join(digest(deb, "sha256") for deb in debs).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"linnet-{version}", "documentNamespace": f"{NAMESPACE}-{version}-{content[:32]}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: linnet-tools-sbom", "Organization: the linnet authors"]},
        "packages": sorted(bill.packages.values(), key=lambda one: one["name"]),
        "files": bill.files, "relationships": bill.relationships}
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
