"""The bridge from end to end as an ordinary user: warden, sandbox, worker and commands, none of them with privileges."""
import json
import os
import pathlib
import subprocess
import unittest

from homes import SALLYPORT, Home

# Somebody without rights where the tests run as root; else whoever runs them.
USER = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
UID = USER.get("user", os.geteuid())


class OrdinaryUser(Home):
    def setUp(self):
        super().setUp()
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh/id_ed25519").write_text("SECRET KEY\n")
        (self.project / "one.txt").write_text("alpha\nbeta\n")
        for path in [self.home, *self.home.rglob("*")]:
            if USER:
                os.chown(path, UID, USER["group"])
        self.server = subprocess.Popen([SALLYPORT, "mcp"], cwd=self.project, env=self.environment, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, **USER)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait, 60)
        self.addCleanup(self.server.stdin.close)
        self.last_id = 0
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"})

    def sallyport(self, *words):
        return super().sallyport(*words, **USER)

    def ask(self, method, **params):
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        while True:
            answer = json.loads(self.server.stdout.readline())
            if answer.get("id") == self.last_id:
                return answer["result"]

    def use(self, tool, **arguments):
        result = self.ask("tools/call", name=tool, arguments=arguments)
        return result["isError"], "".join(part.get("text", "") for part in result["content"])

    def test_reads_edits_searches_and_runs_inside_the_walls(self):
        self.assertEqual(self.use("read", path="one.txt"), (False, "alpha\nbeta\n"))
        self.assertFalse(self.use("edit", path="one.txt", old_string="beta", new_string="gamma")[0])
        self.assertFalse(self.use("write", path="new/two.txt", content="delta\n")[0])
        self.assertEqual(self.use("grep", pattern="^[dg]"), (False, "new/two.txt:1:delta\none.txt:2:gamma\n"))
        is_error, said = self.use("exec", command="id -u; cat one.txt; echo made > three.txt")
        self.assertFalse(is_error, said)
        self.assertIn(f"{UID}\nalpha\ngamma\n", said)
        for name in ("one.txt", "new/two.txt", "three.txt"):
            self.assertEqual((self.project / name).stat().st_uid, UID, name)

    def test_keys_and_the_system_stay_out_of_reach(self):
        key = str(self.home / ".ssh/id_ed25519")
        self.assertTrue(self.use("read", path=key)[0])
        for command in (f"cat {key}", "echo x > /etc/x", "echo x > /usr/x", f"echo x > {self.home}/x; test ! -e {self.home}/x"):
            self.assertNotIn("SECRET", self.use("exec", command=command)[1])
        self.assertFalse((self.home / "x").exists())
        self.assertEqual((self.home / ".ssh/id_ed25519").read_text(), "SECRET KEY\n")

    def test_nothing_of_it_runs_with_more_rights(self):
        self.assertFalse(self.use("exec", command="true")[0])
        warden = json.loads(self.sallyport("status", "--json").stdout)["pid"]
        found = {warden}
        # The warden and all that descends from it: the launcher, the container's pid 1 and its worker.
        for _ in range(5):
            for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    if int(entry.read_text().rsplit(")", 1)[1].split()[1]) in found:
                        found.add(int(entry.parent.name))
                except OSError:
                    pass
        self.assertGreaterEqual(len(found), 3)
        for pid in found:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
            self.assertEqual(set(uids), {str(UID)}, status)

    def test_what_it_did_is_in_the_audit_log_under_its_container(self):
        self.use("exec", command="true")
        asked = self.sallyport("audit", "query", "--method", "container.exec", "--json").stdout
        records = [json.loads(line) for line in asked.splitlines()]
        self.assertTrue(records)
        self.assertTrue(all(record["principal"].startswith("container/mcp-") for record in records), records)
        self.assertEqual(self.sallyport("audit", "verify").returncode, 0)


if __name__ == "__main__":
    unittest.main()
