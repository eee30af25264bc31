"""What every process of ours needs: threads that don't die unseen, and one way to end.

``threads`` has the one kind of background thread, ``shutdown`` the one way to end, ``process_exit`` waits for the end of somebody else's process, ``executor`` finds the JVM above and starts the
agent beside it.
"""
