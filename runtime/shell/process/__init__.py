"""What every process of ours needs: threads that don't die unseen, one way to end, and room for another client.

``threads`` has the one kind of background thread, ``daemon_thread`` what starts it and bounds its start, ``shutdown`` the one
way to end, ``process_exit`` waits for the end of somebody else's process, ``executor`` finds the JVM above and starts the
agent beside it.
"""
